// What the user asks of a compile, as plain values: the `--set KEY=VALUE` settings that compiler/options.h parses.
#pragma once
#include <cstdint>
#include <string>

namespace coil {

/// What a program checks of itself as it runs. What is off leaves no trace in it.
struct Checks {
  bool sizes = true;       ///< ranges of sizes, and the conditions that the program was compiled for
  bool strides = false;    ///< inputs come in the strides that kernels assume; otherwise others are copied
  bool alignment = false;  ///< inputs lie at multiples of 16 bytes
  bool nan = false;        ///< no NaN in any returned value, views and written inputs included
  bool inf = false;        ///< likewise no infinity
  bool lifetimes = false;  ///< each run is watched: memory is used while it lives, after something was written to it,
                           ///< and written to by those that may
};

struct Settings {
  std::string cpu_isa = "native";  ///< cpu.isa
  std::string cpu_compiler;        ///< cpu.compiler: empty for the first of c++, g++, clang++ in PATH
  std::string cuda_arch;           ///< cuda.arch: empty for the first GPU's, sm_90 without one
  std::string
      cuda_nvrtc;  ///< cuda.nvrtc: NVRTC's library, or a folder that holds it; empty to look in the usual places
  /// cuda.launch_config: the number, among those worth a measurement, of the launch config that every kernel takes;
  /// empty for 0, the heuristics' own
  std::string cuda_launch_config;
  /// cuda.alternatives: where sizes are free, kernels for some of them are compiled too: for rows that are whole
  /// vectors
  /// (`vectors`), for ranges of sizes as well (`sizes`), or none (`off`)
  std::string cuda_alternatives = "vectors";
  std::string cuda_cluster;  ///< cuda.cluster: blocks that share a long row; empty for as many as its length asks for
  bool cuda_windows = true;  ///< cuda.windows: convolutions of each channel by itself are loops over windows
  bool cuda_direct_rows = true;  ///< cuda.direct_rows: large products that leave the program are written where they go,
                                 ///< whatever their number of columns
  std::string cuda_sort_sums =
      "auto";  ///< cuda.sort_sums: rows that are added to places that data say are sorted by those, where that gains
  bool cuda_dependent_launch = true;  ///< cuda.dependent_launch: kernels are launched before the one before them ends
  bool cuda_combine_launches = true;  ///< cuda.combine_launches: small kernels that follow one another are one launch
  std::string cuda_tf32 = "none";     ///< cuda.tf32: products and convolutions of f32 that may round their operands to
                                      ///< TF32 (passes/loop/tf32.h)
  std::string cuda_kernels = "cuda";  ///< cuda.kernels: the language that kernels are written in where it can
  std::string cuda_products =
      "auto";                    ///< cuda.products: what computes products in 16 bits (passes/loop/own_products.h)
  std::string cuda_python;       ///< cuda.python: the Python that has Triton; empty for the first in PATH
  bool emulated_gpu = false;     ///< cuda.emulate: CUDA kernels run on the CPU
  bool emulated_metal = false;   ///< metal.emulate: Metal kernels run on the CPU
  bool deterministic = false;    ///< deterministic: the same inputs give the same bits in every run
  bool batch_invariant = false;  ///< deterministic=batch: a row's bits do not depend on how many there are
  bool max_autotune = false;     ///< max_autotune: kernels and products on a GPU are timed there in several forms
  bool pack_weights = true;      ///< pack_weights
  bool keep_weights = false;     ///< keep_weights: nothing follows from the values of parameters and buffers
  bool one_device = false;       ///< one_device: parts of the program that lie on the CPU are moved as well
  bool fuse = true;              ///< fuse
  bool fuse_epilogues = true;    ///< fuse_epilogues
  /// realize.reads, realize.operations, realize.bytes: a value that takes in more gets memory of its own. 0: as the
  /// device's fusion policy has it.
  std::int64_t realize_reads = 0, realize_operations = 0, realize_bytes = 0;
  bool memory_order = true;       ///< memory.order: calls run in the order that needs the least memory
  bool partition = true;          ///< graphs.partition: a program is cut into parts that a device can record
  std::int64_t memory_limit = 0;  ///< memory.limit: bytes that a program may need at once; 0: any number
  bool fold_constants = true;     ///< fold_constants
  bool keep_nan = true;           ///< keep_nan: through products and convolutions with relu or clip behind them
  std::string winograd =
      "true";  ///< winograd: 3x3 convolutions by fewer multiplications; 2 or 4 for all in tiles of that size
  /// distribution.one_shot_bytes, distribution.two_shot_bytes: the largest operands of sums over a group that ranks
  /// read where they lie (lowering/collectives.cpp), each all of them, or its share. 0: none. -1: by the group's number
  /// of ranks, when the program runs.
  std::int64_t one_shot_bytes = -1, two_shot_bytes = 64 << 20;
  bool fuse_sums =
      true;  ///< distribution.fuse_sums: kernels add up over a group what they read (passes/loop/fuse_sums.h)
  /// distribution.chunks: of products beside the exchanges of what they make or take; auto: as many as gain. 0, 1:
  /// none.
  std::string chunks = "0";
  bool overlap = true;  ///< distribution.overlap: exchanges are moved, and begin together, where that saves time
  /// distribution.bucket_bytes, distribution.overlap_bytes: what exchanges that begin together move at most, and by how
  /// much temporaries may then need more at their peak (passes/wrapper/overlap_collectives.h).
  std::int64_t bucket_bytes = 16 << 20, overlap_bytes = 64 << 20;
  bool fallback = false;    ///< fallback: operators without lowering are called in the host, which must know them
  bool provenance = false;  ///< provenance: the package says where each call comes from
  Checks checks;  ///< assert_sizes, assert_strides, assert_alignment, assert_nan, assert_inf, assert_lifetimes
#if defined(NDEBUG) && !defined(COIL_VERIFY)
  bool verify = false;  ///< verify: the program is checked between any two passes, on every level
#else
  bool verify = true;
#endif
};

}  // namespace coil
