// What this machine's processor can do, by the names under which packages and compilers ask for it.
#pragma once
#include <string>
#include <string_view>

namespace coil {

/// The instruction set of this machine as a requirement that a package can state: a level (`avx512`, `avx2` or
/// `baseline`, that is x86-64-v4, -v3 and -v1) and the extensions beyond it that kernels may use, such as
/// `avx512+avx512bf16+avx512vnni`.
std::string machine_isa();

/// Whether this machine has all that `isa` (in the form above) asks for; false for names that are not known.
bool machine_runs(std::string_view isa);

/// Whether this machine's instructions for products of bf16 do half as many of them a cycle as those for f32 do:
/// Intel's processors with AVX512-FP16 (Sapphire Rapids and later), which have AMX for bf16, where a hypervisor hides
/// AMX. Measured on an Emerald Rapids: 94 and 192 GFLOP/s a core.
bool halves_bf16_products();

}  // namespace coil
