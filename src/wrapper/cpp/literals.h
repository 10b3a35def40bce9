// Values as C++ spells them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace coil::wrapper {

std::string c_string(std::string_view text);
/// Bytes as a string literal, a line for each 64 of them; texts keep their lines.
std::string binary_literal(const std::vector<std::byte>& binary);
/// Whether a device's binary is text that its machine compiles, so that the kernels can be read in it.
bool is_source(const std::vector<std::byte>& binary);
std::string real(double x);
/// The name that the C interface has for a type of elements.
std::string dtype(DType);

}  // namespace coil::wrapper
