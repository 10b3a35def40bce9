// Products by a packed weight, by Coil's own loops over panels (runtime/ops/panel/gemm.h) and by oneDNN, in turns: with
// a weight that stays in the cache, and with one of many that come from memory, as in a model.
//
//   ninja -C build product_bench && build/bin/product_bench     (on a machine with AVX-512)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/gemm.h"
#include "support/cpu.h"

namespace coil::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// Calls of y[m, n] = x[m, k] w, each with the next of its copies of w.
class Calls {
 public:
  Calls(const GemmProblem& plain, const std::optional<Packed>& packed, std::size_t copies) {
    if (!packed) return;
    GemmProblem p = plain;
    p.packed_desc = std::get<std::string>(packed->attributes.at("packed_desc"));
    p.packed_bytes = static_cast<std::size_t>(packed->bytes.numel());
    p.b = {1, {p.a.given.dtype, {p.k, p.n}, {1, p.k}}, {p.k, p.n}};
    call_ = panels::make_gemm(p);
    if (!call_) call_ = onednn::make_gemm(p);
    for (std::size_t i = 0; i < copies; ++i) {
      weights_.push_back(Tensor::empty(DType::U8, packed->bytes.sizes));
      std::memcpy(weights_.back().bytes(), packed->bytes.bytes(), p.packed_bytes);
    }
    workspace_ = Storage::allocate(std::max<std::size_t>(call_->workspace_bytes(), 1));
  }

  /// Seconds of one call in a burst of about 20 ms.
  double burst(const void* x, void* y) {
    if (!call_) return 0;
    const auto begin = Clock::now();
    double seconds = 0;
    int calls = 0;
    do {
      for (std::size_t i = 0; i < weights_.size(); ++i, ++calls) {
        const void* inputs[] = {x, weights_[i].bytes()};
        call_->run(inputs, std::span(&y, 1), workspace_.data.get());
      }
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    } while (seconds < 0.02);
    return seconds / calls;
  }

 private:
  std::unique_ptr<PreparedCall> call_;
  std::vector<Tensor> weights_;
  Storage workspace_;
};

void measure(DType dtype, std::int64_t m, std::int64_t k, std::int64_t n) {
  const BoundView views[] = {dense_view(dtype, {m, k}), dense_view(dtype, {n, k})}, y = dense_view(dtype, {m, n});
  const GemmProblem problem = linear_problem({}, views, std::span(&y, 1));
  auto zeros = [](const BoundView& v) {
    Tensor t = Tensor::empty(v.dtype, v.sizes);
    std::memset(t.bytes(), 0, dense_bytes(v));
    return t;
  };
  const Tensor weight = zeros(views[1]), x = zeros(views[0]), result = zeros(y);
  std::printf("%-4s %5lld x %5lld x %5lld", std::string(short_name(dtype)).c_str(), static_cast<long long>(m),
              static_cast<long long>(k), static_cast<long long>(n));
  constexpr std::size_t kBeyondCaches = std::size_t{600} << 20;
  for (const bool cold : {false, true}) {
    const std::size_t copies = cold ? kBeyondCaches / dense_bytes(views[1]) + 1 : 1;
    Calls sides[] = {{problem, onednn::pack_gemm(problem, weight), copies},
                     {problem, panels::pack_gemm(problem, weight, machine_isa()), copies}};
    double least[2] = {1e9, 1e9};
    for (int turn = 0; turn < 8; ++turn)
      for (int side = 0; side < 2; ++side)
        least[side] = std::min(least[side], sides[side].burst(x.bytes(), result.bytes()));
    std::printf(cold ? "   from memory" : "   cached");
    for (const double seconds : least)
      std::printf(" %7.1f", seconds > 0 ? 2e-9 * static_cast<double>(m * n * k) / seconds : 0.);
    std::printf(" (%.2f)", least[0] / least[1]);
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace
}  // namespace coil::runtime

int main() {
  using namespace coil;
  std::printf("GFLOP/s of oneDNN and of panels (and how many times as fast those are); rows x depth x columns\n");
  for (const std::int64_t m : {1, 4, 16, 49, 128, 197, 1024})
    for (const auto& [k, n] : {std::pair<std::int64_t, std::int64_t>{768, 768},
                               {768, 3072},
                               {3072, 768},
                               {256, 64},
                               {64, 256},
                               {2048, 1000}})
      runtime::measure(DType::F32, m, k, n);
  for (const std::int64_t m : {1, 128, 1024}) runtime::measure(DType::BF16, m, 768, 3072);
}
