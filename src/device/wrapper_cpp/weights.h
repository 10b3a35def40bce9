// The file of weights and the seeds of a program's runs.
#pragma once
#include "memory_cpu.h"

// @piece weights
namespace {

/// The file of weights: where the caller says, beside this program, beside its source, or in the current folder.
coil_file* open_weights(const char* given, const char* name) {
  if (given) return coil_file_open(given);
  std::vector<std::string> folders;
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&coil_program_open), &self) && self.dli_fname) folders.push_back(self.dli_fname);
  folders.push_back(__FILE__);
  for (const std::string& file : folders) {
    const std::string path = file.substr(0, file.rfind('/') + 1) + name;
    if (access(path.c_str(), R_OK) == 0) return coil_file_open(path.c_str());
  }
  return coil_file_open(name);
}

struct Weights {
  coil_file* file;
  Placed placed;
  explicit Weights(coil_file* f) : file(f) {
    if (!f) fail(coil_last_error());
  }
  Weights(const Weights&) = delete;
  ~Weights() { coil_file_close(file); }
  /// Where kernels of the device read it.
  char* at(const char* name, size_t offset, size_t bytes) {
    const auto [data, all] = find(name, offset + bytes);
    return placed.at(name, data, all) + offset;
  }
  /// Where the file is mapped.
  char* on_host_at(const char* name, size_t offset, size_t bytes) { return find(name, offset + bytes).first + offset; }

 private:
  /// A tensor of the file and its bytes, of which the program needs so many.
  std::pair<char*, size_t> find(const char* name, size_t needed) {
    coil_tensor t;
    check(coil_file_find(file, name, &t));
    size_t all = describe(t.dtype).bytes;
    for (int d = 0; d < t.rank; ++d) all *= static_cast<size_t>(t.sizes[d]);
    if (all < needed) fail(std::string("the file of weights belongs to another program: '") + name + "' is too short");
    return {static_cast<char*>(t.data), all};
  }
};

/// A new seed for each run of a program that draws random numbers (SplitMix64).
struct Seeds {
  uint64_t state = 0;
  Seeds() {
    if (getentropy(&state, sizeof state)) fail("the system has no entropy");
  }
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  void renew(char* to) {
    const uint64_t seed = next();
    put(to, &seed, sizeof seed);
  }
  void renew_on_host(char* to) {
    const uint64_t seed = next();
    std::memcpy(to, &seed, sizeof seed);
  }
};

}  // namespace
