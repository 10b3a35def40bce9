// Copies between devices: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::copies {

inline constexpr std::string_view kDeviceCopy = "device_copy";
inline constexpr Flag kNonBlocking{
    .name = "non_blocking",
    .sentence = "The host goes on before the copy is done, and whoever reads the result on the host waits for it.",
    .fallback = false};

}  // namespace coil::library_ops::copies
