#include "compiler/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "passes/loop/own_products.h"
#include "passes/loop/tf32.h"
#include "support/error.h"

namespace coil {
namespace {

/// true, false or batch.
struct Determinism {};
using Field =
    std::variant<bool Settings::*, std::string Settings::*, bool Checks::*, std::int64_t Settings::*, Determinism>;

struct Row {
  const char* key;
  Field field;
  const char* values;
  const char* text;
};

const Row kRows[] = {
    {"cpu.isa", &Settings::cpu_isa, "native|avx512|avx2|baseline", "instruction set of CPU kernels"},
    {"cpu.compiler", &Settings::cpu_compiler, "PATH",
     "C++ compiler for kernels; the first of c++, g++, clang++ in PATH by default"},
    {"cuda.arch", &Settings::cuda_arch, "sm_NN",
     "architecture of CUDA kernels; the first GPU's by default, sm_90 without one"},
    {"cuda.nvrtc", &Settings::cuda_nvrtc, "PATH",
     "NVRTC's library, or a folder that holds it; searched in the usual places by default"},
    {"cuda.cluster", &Settings::cuda_cluster, "1|2|4|8",
     "blocks that share a long row of a reduction; as many as its length asks for by default"},
    {"cuda.launch_config", &Settings::cuda_launch_config, "N",
     "which of the launch configs that max_autotune would try every kernel takes, the last where it has fewer; 0, what "
     "the heuristics take, by default"},
    {"cuda.alternatives", &Settings::cuda_alternatives, "off|vectors|sizes",
     "where sizes are free, compile further forms of a kernel, of which each call takes the one for its sizes: one "
     "that moves vectors where rows are whole numbers of them (vectors, the default), others for ranges of sizes as "
     "well (sizes), or none (off); none with deterministic=batch"},
    {"cuda.windows", &Settings::cuda_windows, "true|false",
     "on a GPU, convolutions of each channel by itself are kernels of Coil's own, not cuDNN's"},
    {"cuda.direct_rows", &Settings::cuda_direct_rows, "true|false",
     "write a large matrix product that leaves the program straight into rows that are no whole number of vectors, in "
     "several products, instead of copying it there"},
    {"cuda.sort_sums", &Settings::cuda_sort_sums, "auto|always|never",
     "from sm_90 on: where rows are combined at places that data say (scatter_add, index_add, amax, the gradient of an "
     "index), sort the places and combine what goes to one of them, instead of each row with memory: where that moves "
     "less by an estimate (auto), wherever it can be done, or never"},
    {"cuda.dependent_launch", &Settings::cuda_dependent_launch, "true|false",
     "from sm_90 on: kernels are launched while the one before still runs, and wait for it themselves"},
    {"cuda.combine_launches", &Settings::cuda_combine_launches, "true|false",
     "launch small kernels that follow one another as one kernel"},
    {"cuda.tf32", &Settings::cuda_tf32, "none|products|convolutions|all",
     "what may round its operands of f32 to TF32, for the matrix units of the GPU; none by default, from Python what "
     "torch is set to"},
    {"cuda.kernels", &Settings::cuda_kernels, "cuda|triton|auto",
     "the language of kernels: CUDA C++, or Triton text for all that it has, which Triton compiles; auto: CUDA C++, "
     "but "
     "for those that max_autotune measures to be faster in Triton"},
    {"cuda.products", &Settings::cuda_products, "library|own|auto",
     "what multiplies matrices in 16 bits: the library, or kernels of Coil's own, which also do what follows; auto: "
     "the library, but for products of few rows, and with max_autotune for those that are measured to be faster by a "
     "kernel"},
    {"cuda.python", &Settings::cuda_python, "PATH",
     "the Python that has Triton; the first python3 or python in PATH by default"},
    {"cuda.emulate", &Settings::emulated_gpu, "true|false",
     "on the cpu: run the kernels of cuda there, slowly, to test their values without a GPU"},
    {"metal.emulate", &Settings::emulated_metal, "true|false",
     "on the cpu: run the kernels of metal there, slowly, to test their values without an Apple GPU"},
    {"deterministic", Determinism(), "true|false|batch",
     "on cuda: carry out writes to one place in program order, by sorting, so that sums of floats are the same in "
     "every run; on the cpu they always are; batch: also compute each row of a batch as if it were alone, so that its "
     "bits do not depend on the batch (docs/performance_cpu.md has the cost)"},
    {"max_autotune", &Settings::max_autotune, "true|false",
     "on cuda, where the device is there: time each kernel in several launch configs and each matrix product by "
     "several "
     "of the library's algorithms, and keep the fastest, in the cache as well"},
    {"pack_weights", &Settings::pack_weights, "true|false",
     "rearrange constant weights for the library at compile time"},
    {"keep_weights", &Settings::keep_weights, "true|false",
     "leave parameters and buffers as the archive has them, compute nothing of them at compile time, so that others "
     "may "
     "take their place (docs/aoti.md)"},
    {"one_device", &Settings::one_device, "true|false",
     "move what the program's author put on the CPU, beside another device, to the device that is compiled for"},
    {"fuse", &Settings::fuse, "true|false", "put several operations into one kernel"},
    {"fuse_epilogues", &Settings::fuse_epilogues, "true|false",
     "put what follows a product or convolution (activations, additions, scales) into the library's call"},
    {"realize.reads", &Settings::realize_reads, "N",
     "a value that reads more than N places gets memory of its own; 0: as the device's fusion policy has it"},
    {"realize.operations", &Settings::realize_operations, "N",
     "so does one that takes more than N operations; 0: as the policy has it"},
    {"realize.bytes", &Settings::realize_bytes, "BYTES",
     "so does one that reads more than that through several places; sizes that only a run tells count as their hint, "
     "or "
     "the end of their range; 0: as the policy has it"},
    {"memory.order", &Settings::memory_order, "true|false",
     "run calls in the order in which temporaries need the least memory, take kernels apart that raise its peak, and "
     "make masks and positions again for late readers; false keeps the order of the program"},
    {"graphs.partition", &Settings::partition, "true|false",
     "for a device that records graphs: cut the program into parts that one graph holds, in an order that makes them "
     "few; false leaves it whole, and a run finds its parts itself"},
    {"memory.limit", &Settings::memory_limit, "BYTES",
     "refuse programs that need more for temporaries, outputs and weights at once (N, NKiB, NMiB or NGiB): when they "
     "are "
     "compiled, or before a call runs where sizes are free; 0: none"},
    {"fold_constants", &Settings::fold_constants, "true|false",
     "compute at compile time what depends on weights alone"},
    {"keep_nan", &Settings::keep_nan, "true|false",
     "keep NaN through relu and clip behind products and convolutions, as eager does; false saves a look at the data"},
    {"winograd", &Settings::winograd, "true|false|2|4",
     "on the cpu: compute 3x3 convolutions with constant weights by Winograd's minimal filtering, with up to four "
     "times fewer multiplications and roundings in other places, where it gains; 2 or 4: all that can be, in tiles of "
     "2x2 or 4x4"},
    {"distribution.one_shot_bytes", &Settings::one_shot_bytes, "N",
     "sums over a process group of up to N bytes are added up by every rank from the memory of all, where ranks share "
     "memory; 0: none; not given: on GPUs by the group's number of ranks, else 256 KiB"},
    {"distribution.two_shot_bytes", &Settings::two_shot_bytes, "N",
     "larger sums of up to N bytes are added up by shares, each by one rank; beyond, the group's library does it"},
    {"distribution.fuse_sums", &Settings::fuse_sums, "true|false",
     "on GPUs: kernels add up over a process group what they read of up to 256 KiB, where loops read it; false: a call "
     "of its own does"},
    {"distribution.chunks", &Settings::chunks, "0|auto|N",
     "products, and exchanges over a process group of what they make or take, are cut into N chunks of rows, so that "
     "one chunk is exchanged while the next is computed; auto: where, and into as many as, saves time by a model of "
     "the machine. All ranks must be compiled from programs with the same products"},
    {"distribution.overlap", &Settings::overlap, "true|false",
     "exchanges over a process group start as early, and are waited for as late, as saves time by a model of the "
     "machine"},
    {"distribution.bucket_bytes", &Settings::bucket_bytes, "N",
     "all-reduces, all-gathers and reduce-scatters of one kind that follow one another may begin together, up to N "
     "bytes of results; 0: each by itself"},
    {"distribution.overlap_bytes", &Settings::overlap_bytes, "N",
     "temporaries may need up to N bytes more at their peak for that; none with memory.limit"},
    {"fallback", &Settings::fallback, "true|false",
     "leave operators that Coil has no kernel for to the program that runs the result (in Python, to torch)"},
    {"provenance", &Settings::provenance, "true|false",
     "keep in the package where each call comes from (docs/emitted.md)"},
    {"assert_sizes", &Checks::sizes, "true|false",
     "check sizes of inputs against the ranges and conditions compiled for"},
    {"assert_strides", &Checks::strides, "true|false", "refuse inputs in other strides instead of copying them"},
    {"assert_alignment", &Checks::alignment, "true|false", "refuse inputs at addresses that are no multiple of 16"},
    {"assert_nan", &Checks::nan, "true|false", "fail a run that returns a NaN, in views and written inputs as well"},
    {"assert_inf", &Checks::inf, "true|false", "fail a run that returns an infinity"},
    {"assert_lifetimes", &Checks::lifetimes, "true|false",
     "on the cpu: watch each run, slowly, for uses of memory before it is written to or after it is freed, and for "
     "writes outside of what was given"},
    {"verify", &Settings::verify, "true|false", "check every intermediate representation"},
};

std::int64_t parse_bytes(const std::string& key, const std::string& value) {
  std::int64_t bytes = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  const std::string_view unit(end, value.data() + value.size());
  const std::string_view units[] = {"", "KiB", "MiB", "GiB"};
  const auto* found = std::ranges::find(units, unit);
  const bool is_number = error == std::errc{} && bytes >= 0 && found != std::end(units);
  if (!is_number || __builtin_mul_overflow(bytes, std::int64_t{1} << (10 * (found - units)), &bytes))
    fail("setting {} takes a number of bytes, or of KiB, MiB or GiB (64MiB), not '{}'", key, value);
  return bytes;
}

bool parse_bool(const std::string& key, const std::string& value) {
  if (value == "true" || value == "1" || value == "on") return true;
  if (value == "false" || value == "0" || value == "off") return false;
  fail("setting {} takes true or false, not '{}'", key, value);
}

void set_determinism(Settings& s, const std::string& value) {
  s.batch_invariant = value == "batch";
  if (!s.batch_invariant && value != "true" && value != "1" && value != "on" && value != "false" && value != "0" &&
      value != "off")
    fail("setting deterministic takes true, false or batch, not '{}'", value);
  s.deterministic = s.batch_invariant || parse_bool("deterministic", value);
}

bool is_number_of_chunks(const std::string& value) {
  return value == "auto" || (!value.empty() && value.size() < 6 && value.find_first_not_of("0123456789") == value.npos);
}

}  // namespace

Settings parse_settings(const std::map<std::string, std::string>& given) {
  Settings s;
  for (const auto& [key, value] : given) {
    auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return key == r.key; });
    if (row == std::end(kRows)) {
      std::vector<std::string> keys;
      for (const Row& r : kRows) keys.emplace_back(r.key);
      fail("unknown setting '{}'; there are {}", key, fmt::join(keys, ", "));
    }
    if (auto* b = std::get_if<bool Settings::*>(&row->field))
      s.*(*b) = parse_bool(key, value);
    else if (auto* n = std::get_if<std::int64_t Settings::*>(&row->field))
      s.*(*n) = parse_bytes(key, value);
    else if (auto* c = std::get_if<bool Checks::*>(&row->field))
      s.checks.*(*c) = parse_bool(key, value);
    else if (std::holds_alternative<Determinism>(row->field))
      set_determinism(s, value);
    else
      s.*std::get<std::string Settings::*>(row->field) = value;
  }
  if (s.winograd != "2" && s.winograd != "4") s.winograd = parse_bool("winograd", s.winograd) ? "true" : "false";
  if (!is_tf32_choice(s.cuda_tf32))
    fail("setting cuda.tf32 takes none, products, convolutions or all, not '{}'", s.cuda_tf32);
  if (!is_products_choice(s.cuda_products))
    fail("setting cuda.products takes library, own or auto, not '{}'", s.cuda_products);
  if (!is_number_of_chunks(s.chunks)) fail("setting distribution.chunks takes auto or a number, not '{}'", s.chunks);
  return s;
}

std::vector<SettingHelp> settings_help() {
  std::vector<SettingHelp> out;
  for (const Row& r : kRows) out.push_back({r.key, r.values, r.text});
  return out;
}

}  // namespace coil
