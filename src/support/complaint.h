// What a compiler says is wrong.
#pragma once
#include <string>

namespace coil {

/// The line of a compiler's output that says what is wrong: the first with `error:`, else one that speaks of an error,
/// as NVRTC's may without a colon, else the first at all.
std::string first_complaint(const std::string& output);

}  // namespace coil
