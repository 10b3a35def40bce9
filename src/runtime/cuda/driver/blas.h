// cuBLASLt: matrix products with their epilogues, algorithms chosen by its heuristics and remembered.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/cuda/driver/queue.h"
#include "runtime/cuda/driver/shared_library.h"

namespace coil::runtime::cuda {

/// One matrix as the library sees it: column-major, `columns` apart by `ld` elements, batches by `batch_stride`.
struct BlasMatrix {
  DType dtype = DType::F32;
  bool transposed = false;
  std::int64_t rows = 0, columns = 0, ld = 0, batch_stride = 0;  ///< as stored, before transposition
  auto operator<=>(const BlasMatrix&) const = default;
};

enum class BlasActivation : std::uint8_t { None, Relu, GeluTanh };

/// d = activation(op(a) op(b) + beta*c + bias): c lies as d does; the bias has one value for each row of d.
struct BlasProduct {
  BlasMatrix a, b, d;
  std::int64_t batch = 1;
  bool bias = false, adds = false;
  bool tf32 = false;  ///< may round f32 operands to it
  BlasActivation activation = BlasActivation::None;
  auto operator<=>(const BlasProduct&) const = default;
};

class Blas {
 public:
  explicit Blas(CudaQueue&);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  static constexpr int kAlgorithms = 8;  ///< of the heuristics' list that may be asked for
  /// The device and the library's version: for others the heuristics' list is another.
  std::string identity() const;

  /// A product ready to run: descriptors and an algorithm.
  class Plan {
   public:
    /// `algorithm`: of the heuristics' list, by number; the first where it has fewer.
    Plan(Blas&, const BlasProduct&, int algorithm = 0);
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    std::size_t workspace_bytes() const { return workspace_bytes_; }
    void run(const void* a, const void* b, const void* c, void* d, const void* bias, void* workspace);

   private:
    friend class Blas;
    Blas& blas_;
    BlasProduct product_;
    int algorithm_;
    void *desc_ = nullptr, *a_ = nullptr, *b_ = nullptr, *d_ = nullptr;
    const void* bias_ = nullptr;
    struct Algorithm {
      std::uint64_t data[8];
    };
    struct Choice {
      Algorithm algorithm;
      std::size_t workspace = 0;
    };
    Choice choose(std::uint32_t alignment, std::size_t workspace) const;
    Choice aligned_;                   ///< for operands that lie on 16 bytes
    std::optional<Choice> unaligned_;  ///< found when a call needs it
    std::size_t workspace_bytes_ = 0;
  };

 private:
  using Status = int;
  void check(Status, const char* what) const;

  CudaQueue& queue_;
  SharedLibrary library_;
  void* handle_ = nullptr;
  std::map<std::tuple<BlasProduct, std::uint32_t, int>, Plan::Choice> chosen_;

#define COIL_CUBLASLT(X)                                                                                               \
  X(version, "cublasLtGetVersion", ())                                                                                 \
  X(create, "cublasLtCreate", (void**))                                                                                \
  X(destroy, "cublasLtDestroy", (void*))                                                                               \
  X(desc_create, "cublasLtMatmulDescCreate", (void**, int, int))                                                       \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (void*))                                                                \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (void*, int, const void*, std::size_t))                                \
  X(layout_create, "cublasLtMatrixLayoutCreate", (void**, int, std::uint64_t, std::uint64_t, std::int64_t))            \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (void*))                                                            \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (void*, int, const void*, std::size_t))                            \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (void**))                                                     \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (void*))                                                    \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute", (void*, int, const void*, std::size_t))                    \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic", (void*, void*, void*, void*, void*, void*, void*, int, void*, int*))  \
  X(matmul, "cublasLtMatmul",                                                                                          \
    (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, \
     const void*, void*, std::size_t, Stream))
#define X(name, symbol, parameters) Status(*name##_) parameters = nullptr;
  COIL_CUBLASLT(X)
#undef X
};

}  // namespace coil::runtime::cuda
