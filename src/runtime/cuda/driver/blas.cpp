#include "runtime/cuda/driver/blas.h"

#include <algorithm>
#include <bit>

#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr const char* kBlasNames[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // what NVIDIA advises for Hopper

// Values of cublasLt.h and library_types.h.
constexpr int kCompute32F = 68, kCompute64F = 70, kComputeTf32 = 77;
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBiasPointer = 8, kDescBiasType = 26;
constexpr int kLayoutBatch = 5, kLayoutBatchStride = 6;
constexpr int kPreferenceWorkspace = 1, kPreferenceAlignmentA = 5;
constexpr std::uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32;
constexpr int kTranspose = 1;

int blas_type(DType d) {
  switch (d) {
    case DType::F32: return 0;
    case DType::F64: return 1;
    case DType::F16: return 2;
    case DType::BF16: return 14;
    default: fail("matrix products of {} do not run on cuda", torch_name(d));
  }
}

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

std::uint32_t epilogue(const BlasProduct& p) {
  std::uint32_t e = p.bias ? kEpilogueBias : 0;
  if (p.activation == BlasActivation::Relu) e |= kEpilogueRelu;
  if (p.activation == BlasActivation::GeluTanh) e |= kEpilogueGelu;
  return e ? e : kEpilogueDefault;
}

bool on_sixteen(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

}  // namespace

Blas::Blas(CudaQueue& queue) : queue_(queue), library_("cuBLASLt", kBlasNames) {
#define X(name, symbol, parameters) library_.find(name##_, symbol);
  COIL_CUBLASLT(X)
#undef X
  check(create_(&handle_), "start");
}

Blas::~Blas() {
  if (handle_) destroy_(handle_);
}

void Blas::check(Status status, const char* what) const {
  if (status != 0) fail("cuBLASLt cannot {} (status {})", what, status);
}

std::string Blas::identity() const {
  return fmt::format("{} (sm_{}), cuBLASLt {}", queue_.cuda().name(), queue_.cuda().capability(), version_());
}

Blas::Plan::Plan(Blas& blas, const BlasProduct& p, int algorithm) : blas_(blas), product_(p), algorithm_(algorithm) {
  const bool f64 = p.d.dtype == DType::F64;
  const int scale = blas_type(f64 ? DType::F64 : DType::F32);
  const int compute = f64 ? kCompute64F : p.tf32 && p.a.dtype == DType::F32 ? kComputeTf32 : kCompute32F;
  blas.check(blas.desc_create_(&desc_, compute, scale), "describe a product");
  auto set = [&](int attribute, auto value) {
    blas.check(blas.desc_set_(desc_, attribute, &value, sizeof value), "describe a product");
  };
  if (p.a.transposed) set(kDescTransA, kTranspose);
  if (p.b.transposed) set(kDescTransB, kTranspose);
  set(kDescEpilogue, epilogue(p));
  if (p.bias) set(kDescBiasType, blas_type(p.d.dtype));
  auto layout = [&](void** made, const BlasMatrix& m) {
    blas.check(blas.layout_create_(made, blas_type(m.dtype), static_cast<std::uint64_t>(m.rows),
                                   static_cast<std::uint64_t>(m.columns), m.ld),
               "describe a matrix");
    if (p.batch == 1) return;
    const auto batch = static_cast<std::int32_t>(p.batch);
    blas.check(blas.layout_set_(*made, kLayoutBatch, &batch, sizeof batch), "describe a batch");
    blas.check(blas.layout_set_(*made, kLayoutBatchStride, &m.batch_stride, sizeof m.batch_stride), "describe a batch");
  };
  layout(&a_, p.a);
  layout(&b_, p.b);
  layout(&d_, p.d);
  aligned_ = choose(16, kWorkspace);
  workspace_bytes_ = aligned_.workspace;
}

Blas::Plan::~Plan() {
  for (void* layout : {a_, b_, d_})
    if (layout) blas_.layout_destroy_(layout);
  if (desc_) blas_.desc_destroy_(desc_);
}

Blas::Plan::Choice Blas::Plan::choose(std::uint32_t alignment, std::size_t workspace) const {
  const auto key = std::tuple(product_, alignment, algorithm_);
  if (auto found = blas_.chosen_.find(key); found != blas_.chosen_.end() && found->second.workspace <= workspace)
    return found->second;
  void* preference = nullptr;
  blas_.check(blas_.preference_create_(&preference), "describe a search");
  blas_.check(blas_.preference_set_(preference, kPreferenceWorkspace, &workspace, sizeof workspace),
              "describe a search");
  for (int k = 0; k < 4; ++k)
    blas_.check(blas_.preference_set_(preference, kPreferenceAlignmentA + k, &alignment, sizeof alignment),
                "describe a search");
  if (product_.bias) {  // the heuristic looks at the pointer's alignment only
    const std::uintptr_t somewhere = alignment;
    blas_.check(blas_.desc_set_(desc_, kDescBiasPointer, &somewhere, sizeof somewhere), "describe a product");
  }
  HeuristicResult results[kAlgorithms]{};
  int count = 0;
  const Status status = blas_.heuristic_(blas_.handle_, desc_, a_, b_, d_, d_, preference,
                                         std::clamp(algorithm_ + 1, 1, kAlgorithms), results, &count);
  blas_.preference_destroy_(preference);
  const bool has = algorithm_ < count && algorithm_ < kAlgorithms && results[algorithm_].state == 0;
  const HeuristicResult& result = results[has ? algorithm_ : 0];
  if (status != 0 || count == 0 || result.state != 0)
    fail("cuBLASLt has no algorithm for a product of {}x{} and {}x{} {} (status {})", product_.b.columns,
         product_.b.rows, product_.a.columns, product_.a.rows, short_name(product_.d.dtype), status);
  Choice choice;
  std::copy(std::begin(result.algorithm), std::end(result.algorithm), choice.algorithm.data);
  choice.workspace = result.workspace;
  blas_.chosen_.insert_or_assign(key, choice);
  return choice;
}

void Blas::Plan::run(const void* a, const void* b, const void* c, void* d, const void* bias, void* workspace) {
  const bool aligned =
      on_sixteen(a) && on_sixteen(b) && on_sixteen(d) && (!c || on_sixteen(c)) && (!bias || on_sixteen(bias));
  if (!aligned && !unaligned_) {
    unaligned_ = choose(static_cast<std::uint32_t>(std::min(size_of(product_.a.dtype), size_of(product_.d.dtype))),
                        workspace_bytes_);
    bias_ = nullptr;
  }
  const Choice& choice = aligned ? aligned_ : *unaligned_;
  if (product_.bias && bias != bias_) {
    blas_.check(blas_.desc_set_(desc_, kDescBiasPointer, &bias, sizeof bias), "take a bias");
    bias_ = bias;
  }
  const double one64 = 1, beta64 = product_.adds ? 1 : 0;
  const float one32 = 1, beta32 = product_.adds ? 1.0f : 0.0f;
  const bool f64 = product_.d.dtype == DType::F64;
  const void *alpha = f64 ? static_cast<const void*>(&one64) : &one32,
             *beta = f64 ? static_cast<const void*>(&beta64) : &beta32;
  blas_.check(blas_.matmul_(blas_.handle_, desc_, alpha, a, a_, b, b_, beta, c ? c : d, d_, d, d_,
                            choice.algorithm.data, workspace, choice.workspace, blas_.queue_.stream()),
              "multiply matrices");
  blas_.queue_.in_flight().add_anything();
  blas_.queue_.in_flight().set_lets_begin(true);
}

}  // namespace coil::runtime::cuda
