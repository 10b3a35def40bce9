// A kernel's text in Triton as a module that stands on its own.
#pragma once
#include <string>
#include <string_view>

namespace coil::codegen {

/// The text behind its imports and those functions of device/triton that it calls.
std::string triton_program(std::string_view kernel);

}  // namespace coil::codegen
