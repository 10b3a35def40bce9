// Schemas of the operators that a program written as an FX graph (`--emit=fx`) calls kernels, library operations and
// checks by: torch has them from the file itself, and the registry for `coil opt`.
#pragma once
#include <string_view>

namespace coil::ops {

/// Without the namespace, `coil_wrapper::`.
inline constexpr std::string_view kWrapperSchemas[] = {
    "kernel(str name, Tensor[] reads, Tensor(a!)[] writes, SymInt[] scalars, SymInt extent, int grain, str failure) -> "
    "()",
    "launch(str name, Tensor[] reads, Tensor(a!)[] writes, SymInt[] scalars, SymInt[] grid, int block, SymInt "
    "shared_bytes=0, Tensor(b!)? failures=None, int site=0, SymInt[] maps=[]) -> ()",
    "user_kernel(str name, Tensor[] reads, Tensor(a!)[] writes, SymInt[] numbers, SymInt[] grid, str failure='', "
    "Tensor(b!)? failures=None, int site=0) -> ()",
    "new_failures(Tensor like, int count) -> Tensor",
    "check_failures(Tensor failures, str[] messages) -> ()",
    "library(str op, str attributes, Tensor[] inputs, Tensor(a!)[] outputs) -> ()",
    "take.Tensor(Tensor(a) given, str name, ScalarType dtype, Device? device=None) -> Tensor(a)",
    "take.Scalar(Scalar given, str name, ScalarType dtype, Device? device=None) -> Tensor",
    "lay_out(Tensor(a) given, str name, ScalarType dtype, SymInt[] sizes, SymInt[] strides, Device? device=None) -> "
    "Tensor(a)",
    "integer(Tensor t) -> SymInt",
    "float_of_bits(SymInt word) -> float",
    "bits_of_float(float x) -> SymInt",
    "write_back(Tensor(a!) given, Tensor used) -> ()",
    "delete(Tensor t) -> ()",
};

}  // namespace coil::ops
