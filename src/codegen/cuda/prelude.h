// The text in front of generated CUDA kernels: device functions (`c_…`) that kernels call.
//
// Nothing is included: headers would cost more compile time than the kernels. What only a GPU has (PTX instructions,
// shuffles, atomics) stands in one part, `cuda_machine`, so that the same kernels also run on a CPU behind another such
// part (codegen/cuda/emulate.cpp). The texts are the files of device/cuda and device/shared.
//
// Types: `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool`. f16, bf16 and float8 live in memory only: their values are f32
// in registers, their elements u16 and u8.
// `<d>` below is a short dtype name (`f32`, `bf16`, `b8`, …).
//   memory      c_load_<d>(p) c_store_<d>(p, x) c_get_<d>(e) (a stored element as a register) c_put_<d>(x) (and back)
//               c_pack<E, V>: V elements that move as one access of up to 16 bytes; its pointer must be a multiple of
//               their size
//   converting  c_cast_<d>(x) c_round_f16(x) c_round_bf16(x) c_bitcast_<d>(x)
//   scalars     c_<name>(…) for every entry of COIL_SCALAR_OPS, of the semantics that ir/scalar.h states
//   teams       c_reduce_warp<T>(x, op) over T lanes, every lane gets the result; c_scan_warp(x, op)
//   scatter     c_atomic_<mode>_<d>(p, x) and, where the mode has no instruction, a loop of compare-and-swap
#pragma once
#include <string>
#include <string_view>

namespace coil::codegen {

/// Types, and what only a GPU has.
const std::string& cuda_machine();
/// Everything else that any kernel may call, to stand behind a machine part.
const std::string& cuda_prelude();
/// The special functions that `kernels` call, and those that these call, for all types: behind the prelude.
std::string special_functions_on_cuda(std::string_view kernels);
/// The files of kernels that are written as they are (attention, products and convolutions in groups) that `kernels`
/// call: behind the prelude.
std::string written_on_cuda(std::string_view kernels);
/// All that stands in front of `kernels` in a unit for NVRTC. `dependent_launches`: they wait themselves for the kernel
/// before them.
std::string cuda_head(std::string_view kernels, bool dependent_launches);

}  // namespace coil::codegen
