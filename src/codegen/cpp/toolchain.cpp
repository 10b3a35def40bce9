#include "codegen/cpp/toolchain.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "codegen/binary_cache.h"
#include "support/complaint.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/subprocess.h"
#include "support/temporary_folder.h"

namespace coil::codegen {

namespace fs = std::filesystem;

namespace {

/// What of -O2 makes kernels faster: constants kept in registers, registers chosen anew, instructions in a better
/// order, multiplications and additions joined. The rest of it finds little in straight lines of vectors, and is a
/// third of GCC's time.
constexpr std::string_view kOptimizations[] = {"-fexpensive-optimizations", "-fstrict-aliasing", "-fgcse",
                                               "-frerun-cse-after-loop",    "-fschedule-insns2", "-fpeephole2"};

/// What tells one installed compiler from another without starting it.
std::string identity_of(const fs::path& compiler) {
  std::error_code error;
  fs::path real = fs::canonical(compiler, error);
  if (error) real = compiler;
  struct stat info{};
  if (::stat(real.c_str(), &info) != 0)
    fail("cannot read the compiler {}: {}", compiler.string(), std::strerror(errno));
  return fmt::format("{}:{}:{}.{}", real.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

bool is_clang(const fs::path& compiler) {
  std::error_code error;
  fs::path real = fs::canonical(compiler, error);
  return (error ? compiler : real).filename().string().find("clang") != std::string::npos;
}

/// The instruction set as flags: the level, then each extension by its own name, so that nothing is used that `isa`
/// does not state.
void add_isa_flags(std::vector<std::string>& flags, std::string_view isa) {
  std::string_view level = isa.substr(0, isa.find('+'));
  flags.push_back(level == "avx512" ? "-march=x86-64-v4" : level == "avx2" ? "-march=x86-64-v3" : "-march=x86-64");
  for (std::size_t at = level.size(); at < isa.size();) {
    std::size_t end = std::min(isa.find('+', at + 1), isa.size());
    flags.push_back(fmt::format("-m{}", isa.substr(at + 1, end - at - 1)));
    at = end;
  }
}

std::vector<std::byte> compile_one(const Toolchain& toolchain, const std::string& source, const fs::path& folder,
                                   std::size_t index) {
  // The same names for every source: an object holds its source's name.
  fs::path place = folder / std::to_string(index), input = place / "kernels.cpp", output = place / "kernels.so";
  fs::create_directory(place);
  write_file(input, source);
  std::vector<std::string> argv{toolchain.compiler.string()};
  argv.insert(argv.end(), toolchain.flags.begin(), toolchain.flags.end());
  argv.insert(argv.end(), {input.string(), "-o", output.string(), "-lm"});
  ProcessResult result = run_process(argv);
  if (!result.ok() && result.err.find("internal compiler error") !=
                          std::string::npos) {  // the compiler's own fault, mostly of an optimization
    std::erase_if(argv, is_optimization);
    argv.push_back("-O1");
    result = run_process(argv);
  }
  if (!result.ok())
    fail("the compiler {} refused a kernel: {}", toolchain.compiler.string(), first_complaint(result.err));
  std::string object = read_file(output);
  auto bytes = std::as_bytes(std::span(object));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Toolchain find_toolchain(const std::string& compiler, const std::string& isa) {
  Toolchain out;
  if (!compiler.empty()) {
    auto found = find_program(compiler);
    if (!found) fail("no C++ compiler {}: install it, or set cpu.compiler to another", compiler);
    out.compiler = *found;
  } else {
    for (const char* name : {"c++", "g++", "clang++"}) {
      if (auto found = find_program(name)) {
        out.compiler = *found;
        break;
      }
    }
    if (out.compiler.empty()) fail("no C++ compiler found: install g++ or clang++, or set cpu.compiler");
  }
  if (isa != "native" && isa != "avx512" && isa != "avx2" && isa != "baseline")
    fail("cpu.isa is {}: it may be native, avx512, avx2 or baseline", isa);
  out.isa = isa == "native" ? machine_isa() : isa;
  out.lanes = out.isa.starts_with("avx512") ? 16 : out.isa.starts_with("avx2") ? 8 : 4;
  out.identity = identity_of(out.compiler);
  out.flags = {"-std=c++17",
               "-fPIC",
               "-shared",
               "-w",
               "-fwrapv",
               "-fno-math-errno",
               "-fno-trapping-math",
               "-ffp-contract=fast",
               "-fno-exceptions",
               "-fno-rtti",
               "-fno-asynchronous-unwind-tables",
               "-fvisibility=default",
               "-nostdlib",
               "-s",
               "-x",
               "c++"};
  add_isa_flags(out.flags, out.isa);
  // Clang 16's pass that combines shuffles recurses without end on some kernels, which are vectors already.
  // GCC unrolls loops over lanes, which kernels ask for where they want it.
  if (is_clang(out.compiler)) {
    out.flags.insert(out.flags.end(), {"-O2", "-mllvm", "-disable-vector-combine"});
  } else {
    out.flags.insert(out.flags.end(), {"-O1", "--param", "max-completely-peel-times=4"});
    out.flags.insert(out.flags.end(), std::begin(kOptimizations), std::end(kOptimizations));
  }
  return out;
}

bool is_optimization(std::string_view flag) {
  return flag.starts_with("-O") || std::ranges::find(kOptimizations, flag) != std::end(kOptimizations);
}

void optimize_less(Toolchain& toolchain) {
  std::erase_if(toolchain.flags, is_optimization);
  toolchain.flags.push_back("-O1");
}

std::vector<std::vector<std::byte>> compile_shared(const Toolchain& toolchain, std::span<const std::string> sources,
                                                   const CompileSharedOptions& options) {
  std::vector<std::vector<std::byte>> objects(sources.size());
  std::vector<fs::path> entries(sources.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (options.cache_folder) {
      Hasher hasher;
      hasher.add(toolchain.identity);
      for (const std::string& flag : toolchain.flags) hasher.add(flag);
      entries[i] = *options.cache_folder / (to_hex(hasher.add(sources[i]).digest()) + ".so");
      if (auto object = read_binary(entries[i])) {
        objects[i] = std::move(*object);
        continue;
      }
    }
    missing.push_back(i);
  }
  if (missing.empty()) return objects;

  TemporaryFolder folder;
  in_parallel(missing.size(), options.jobs, [&](std::size_t at) {
    const std::size_t i = missing[at];
    objects[i] = compile_one(toolchain, sources[i], folder.path(), i);
    if (options.cache_folder) write_binary(entries[i], objects[i]);
  });
  return objects;
}

}  // namespace coil::codegen
