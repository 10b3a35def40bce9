#include "runtime/aoti/torch.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "support/error.h"

namespace coil::runtime::aoti {
namespace {

constexpr std::int32_t kNone = -1;

}  // namespace

Torch::Torch() {
  // What the process has loaded; a program may also be linked with torch as a whole.
  libraries_[0] = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  libraries_[1] = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  libraries_[2] = dlopen(nullptr, RTLD_LAZY);
  std::vector<std::string> missing;
  const auto want = [&](auto& function, const std::string& symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(address(symbol));
    if (!function) missing.push_back(symbol);
  };
#define X(name, parameters) want(name##_function, "aoti_torch_" #name);
  COIL_TORCH_FUNCTIONS(X)
#undef X
  if (!missing.empty())
    fail("the process that loads this package has no libtorch with {}; load it with torch 2.8 or newer",
         fmt::join(missing, ", "));
  threads_ = find<int()>("_ZN2at15get_num_threadsEv");
  std::fill(std::begin(dtypes_), std::end(dtypes_), kNone);
#define X(e, short_name, torch, ...) \
  if (auto* number = find<std::int32_t()>("aoti_torch_dtype_" torch)) dtypes_[static_cast<int>(DType::e)] = number();
  COIL_DTYPES(X)
#undef X
}

void* Torch::address(const std::string& symbol) const {
  for (void* library : libraries_)
    if (void* found = library ? dlsym(library, symbol.c_str()) : nullptr) return found;
  return nullptr;
}

void Torch::failed(const char* function) { fail("torch failed in {}; it has written why to stderr", function); }

std::int32_t Torch::number(DType dtype) const {
  const std::int32_t number = dtypes_[static_cast<int>(dtype)];
  if (number == kNone) fail("this torch has no dtype {}", torch_name(dtype));
  return number;
}

DType Torch::dtype(std::int32_t number) const {
  for (int i = 0; i < 256; ++i)
    if (dtypes_[i] == number && number != kNone) return static_cast<DType>(i);
  fail("torch's dtype number {} is none that programs take", number);
}

std::int32_t Torch::number(DeviceType type) const {
  auto* number = find<std::int32_t()>("aoti_torch_device_type_" + type.name());
  if (!number) fail("this torch knows no device '{}'", type.name());
  return number();
}

int Torch::threads() const { return threads_ ? threads_() : 0; }

const Torch& torch() {
  static const Torch functions;
  return functions;
}

}  // namespace coil::runtime::aoti
