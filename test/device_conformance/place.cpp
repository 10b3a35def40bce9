#include "place.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "runtime/cuda/driver/device.h"
#include "runtime/views/strided_copy.h"

namespace coil::conformance {

std::vector<Place>& places() {
  static std::vector<Place> all;
  return all;
}

std::shared_ptr<runtime::DeviceRuntime> Place::open() const {
  if (name != "fake") return runtime::open_device(device);
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return runtime::cuda::open_cuda(device.index, (folder / "lib/fake_cuda/libcuda.so.1").string());
}

Tensor empty_on(runtime::Queue& queue, DType type, Sizes sizes, Sizes strides, std::int64_t span) {
  return {queue.allocate(static_cast<std::size_t>(span) * size_of(type)), type, std::move(sizes), std::move(strides),
          0};
}

Tensor random_on_host(DType type, const Sizes& sizes, unsigned seed) {
  std::mt19937 random(seed);
  Tensor out = Tensor::empty(type, sizes);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const unsigned bits = random();
    const double number = static_cast<double>(bits % 4096) / 1024 - 2;
    std::byte* to = out.bytes() + i * static_cast<std::int64_t>(size_of(type));
    if (type == DType::F32) {
      const auto x = static_cast<float>(number);
      std::memcpy(to, &x, sizeof x);
    } else if (type == DType::F64) {
      std::memcpy(to, &number, sizeof number);
    } else {
      const std::uint64_t x = type == DType::Bool ? bits % 2 : bits % 5;
      std::memcpy(to, &x, size_of(type));  // the low bytes come first
    }
  }
  return out;
}

Tensor to_host(runtime::Queue& queue, const Tensor& t) {
  Tensor out = Tensor::empty(t.dtype, t.sizes);
  if (out.numel() > 0) queue.copy(out, t);
  queue.wait();
  return out;
}

testing::AssertionResult same(const Tensor& got, const Tensor& expected) {
  if (got.dtype != expected.dtype || got.sizes != expected.sizes)
    return testing::AssertionFailure() << "another type or other sizes";
  const Tensor a = got.contiguous(), b = expected.contiguous();
  const auto bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype);
  if (bytes == 0 || std::memcmp(a.bytes(), b.bytes(), bytes) == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "other elements";
}

testing::AssertionResult close(const Tensor& got, const Tensor& expected) {
  if (got.dtype != expected.dtype || got.sizes != expected.sizes)
    return testing::AssertionFailure() << "another type or other sizes";
  if (got.dtype != DType::F32) return same(got, expected);
  const Tensor a = got.contiguous(), b = expected.contiguous();
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const float x = a.data<float>()[i], y = b.data<float>()[i];
    if (std::fabs(x - y) > 2e-5f * std::fmax(1.f, std::fabs(y)) || std::isnan(x) != std::isnan(y))
      return testing::AssertionFailure() << "element " << i << " is " << x << ", expected " << y;
  }
  return testing::AssertionSuccess();
}

}  // namespace coil::conformance
