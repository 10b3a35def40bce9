// The languages that programs can be written in, by name.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wrapper/emitter.h"

namespace coil::wrapper {

/// Forms of output that are no text.
inline constexpr const char *kPackage = "package", *kTorchPackage = "aoti";

using EmitterFactory = std::function<std::unique_ptr<Emitter>()>;

/// Adds a language, for `coil compile --emit NAME`. Throws Error when the name is taken. Libraries from outside call it
/// as they are loaded (`--load LIBRARY`).
COIL_EXTENSION_API void register_emitter(const std::string& language, EmitterFactory);
/// Throws Error with the languages that there are.
std::unique_ptr<Emitter> make_emitter(std::string_view language);
std::vector<std::string> emitter_names();

}  // namespace coil::wrapper
