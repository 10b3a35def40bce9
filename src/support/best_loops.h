// Loops that are compiled for several instruction sets: which of them this machine runs.
#pragma once
#include "support/cpu.h"

/// Loops that only x86-64 has; null elsewhere, where they are not compiled.
#ifdef __x86_64__
#define COIL_ON_X86(loops) (loops)
#else
#define COIL_ON_X86(loops) nullptr
#endif

namespace coil {

/// The widest that this machine runs. `others`, which every machine runs, may be null, and the result then is.
template <class Loops>
const Loops* best_loops(const Loops* avx512, const Loops* avx2, const Loops* others) {
  if (avx512 && machine_runs("avx512")) return avx512;
  if (avx2 && machine_runs("avx2")) return avx2;
  return others;
}

}  // namespace coil
