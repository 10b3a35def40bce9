#include "kernels.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace coil::fake_cuda {
namespace {

template <class T>
T* pointer(std::uint64_t word) {
  return reinterpret_cast<T*>(word);
}

// scale(x, y, s0, n, status): y[i] = x[i] * s0, unless the run has failed.
void scale(const std::uint64_t* w, std::uint64_t threads) {
  if (w[4] && *pointer<std::int64_t>(w[4])) return;
  for (std::uint64_t i = 0; i < std::min(w[3], threads); ++i)
    pointer<float>(w[1])[i] = pointer<float>(w[0])[i] * static_cast<float>(static_cast<std::int64_t>(w[2]));
}

// add(a, b, y, n, status): y[i] = a[i] + b[i].
void add(const std::uint64_t* w, std::uint64_t threads) {
  for (std::uint64_t i = 0; i < std::min(w[3], threads); ++i)
    pointer<float>(w[2])[i] = pointer<float>(w[0])[i] + pointer<float>(w[1])[i];
}

// guard(s0, status): fails where s0 is not 0.
void guard(const std::uint64_t* w, std::uint64_t) {
  if (w[0] != 0) *pointer<std::int64_t>(w[1]) = 1;
}

// fail(s0, status): fails where s0 is not 0, as kernels of plans that stop on failure do.
void fail(const std::uint64_t* w, std::uint64_t) {
  if (w[0] == 0) return;
  auto* status = pointer<std::int64_t>(w[1]);
  *pointer<std::int64_t>(static_cast<std::uint64_t>(status[1])) = 1;
  for (std::int64_t k = 0; k < status[3]; ++k) pointer<std::int64_t>(static_cast<std::uint64_t>(status[2]))[4 * k] = 1;
}

// sees(y, status): y[0] = whether there is a status to look at.
void sees(const std::uint64_t* w, std::uint64_t) { *pointer<float>(w[0]) = w[1] != 0; }

// count(x, y, n, status): y[0] = how many of x[i] are above 0.
void count(const std::uint64_t* w, std::uint64_t) {
  std::int64_t& y = *pointer<std::int64_t>(w[1]) = 0;
  for (std::uint64_t i = 0; i < w[2]; ++i) y += pointer<float>(w[0])[i] > 0;
}

// Copier: to, from, elements, rank, then {size, stride of to, stride of from} in bytes for each dimension, innermost
// first.
template <std::size_t kItem>
void copy(const std::uint64_t* w, std::uint64_t) {
  for (std::uint64_t i = 0; i < w[2]; ++i) {
    std::uint64_t rest = i, to = w[0], from = w[1];
    for (std::uint64_t d = 0; d < w[3]; ++d) {
      const std::uint64_t* dimension = w + 4 + 3 * d;
      const std::uint64_t at = rest % dimension[0];
      rest /= dimension[0];
      to += at * dimension[1];
      from += at * dimension[2];
    }
    std::memcpy(pointer<char>(to), pointer<char>(from), kItem);
  }
}

constexpr struct {
  std::string_view name;
  HostKernel run;
} kKernels[] = {{"scale", scale},
                {"add", add},
                {"guard", guard},
                {"fail", fail},
                {"sees", sees},
                {"count", count},
                {"coil_copy_1", copy<1>},
                {"coil_copy_1_narrow", copy<1>},
                {"coil_copy_2", copy<2>},
                {"coil_copy_2_narrow", copy<2>},
                {"coil_copy_4", copy<4>},
                {"coil_copy_4_narrow", copy<4>},
                {"coil_copy_8", copy<8>},
                {"coil_copy_8_narrow", copy<8>},
                {"coil_copy_16", copy<16>},
                {"coil_copy_16_narrow", copy<16>}};

}  // namespace

HostKernel find_kernel(std::string_view name) {
  for (const auto& k : kKernels)
    if (k.name == name) return k.run;
  return nullptr;
}

EmulatedKernel find_emulated_kernel(const std::string& name) {
  const char* path = std::getenv("COIL_FAKE_CUDA_KERNELS");
  static void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  return library ? reinterpret_cast<EmulatedKernel>(dlsym(library, (name + "_run").c_str())) : nullptr;
}

}  // namespace coil::fake_cuda
