// What the operations on batches of matrices share: operands copied in and out column by column, scratch memory,
// threads over the batch.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/by_element_type.h"
#include "runtime/ops/lapack/lapack.h"
#include "support/error.h"

namespace coil::runtime {

/// A leading dimension as LAPACK takes it, which is at least 1.
inline int leading(int rows) { return std::max(rows, 1); }

/// One operand: matrices (rank 2), vectors (1) or numbers (0) after the dimensions of the batch, any strides.
struct BatchOperand {
  BoundView view;
  std::size_t rank = 0;

  std::size_t lead() const { return view.sizes.size() - rank; }
  int rows() const { return static_cast<int>(view.sizes[view.sizes.size() - rank]); }
  int columns() const { return rank < 2 ? 1 : static_cast<int>(view.sizes.back()); }
  std::int64_t row_stride() const { return rank == 0 ? 0 : view.strides[view.strides.size() - rank]; }
  std::int64_t column_stride() const { return rank < 2 ? 0 : view.strides.back(); }
  std::int64_t offset(std::int64_t item) const {
    std::int64_t at = 0;
    for (std::size_t d = lead(); d-- > 0;) {
      at += item % view.sizes[d] * view.strides[d];
      item /= view.sizes[d];
    }
    return at;
  }
};

/// A routine for each item of a batch, on scratch memory that `setup` asked for.
template <class T>
class MatrixBatch : public LibraryOp {
 public:
  MatrixBatch(std::string_view name, std::vector<std::size_t> input_ranks, std::vector<std::size_t> output_ranks)
      : name_(name), input_ranks_(std::move(input_ranks)), output_ranks_(std::move(output_ranks)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) final {
    bytes_ = 0;
    inputs_ = bound(inputs, input_ranks_, "inputs");
    outputs_ = bound(outputs, output_ranks_, "results");
    const auto lead = inputs_[0].view.sizes.begin();
    const Sizes batch(lead, lead + static_cast<std::ptrdiff_t>(inputs_[0].lead()));
    for (const auto* list : {&inputs_, &outputs_})
      for (const BatchOperand& o : *list)
        if (!std::equal(batch.begin(), batch.end(), o.view.sizes.begin(),
                        o.view.sizes.begin() + static_cast<std::ptrdiff_t>(o.lead())))
          fail("{}: operands are batches of different sizes", name_);
    items_ = numel(batch);
    setup();
    // Large matrices are left to LAPACK's own threads.
    const std::int64_t n = inputs_[0].rank < 2 ? 1 : std::max(inputs_[0].rows(), inputs_[0].columns());
    workers_ = n >= 256 ? 1 : chunk_count(items_, 1 + 100000 / (n * n * n + 1), thread_count());
  }

  std::size_t workspace_bytes() const final { return bytes_ * static_cast<std::size_t>(std::max(workers_, 1)); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) final {
    std::atomic<int> failed{0};
    parallel_ranges(workers_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w) {
        std::byte* scratch = static_cast<std::byte*>(workspace) + static_cast<std::size_t>(w) * bytes_;
        for (std::int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i)
          if (int info = one(Item(*this, inputs, outputs, scratch, i))) failed = info;
      }
    });
    if (failed) fail("{}", failure(failed));
  }

 protected:
  /// A part of the scratch memory.
  struct Slot {
    std::size_t offset;
  };

  class Item {
   public:
    Item(const MatrixBatch& op, std::span<const void* const> inputs, std::span<void* const> outputs, std::byte* scratch,
         std::int64_t index)
        : op_(op), inputs_(inputs), outputs_(outputs), scratch_(scratch), index_(index) {}

    template <class E = T>
    E* scratch(Slot s) const {
      return reinterpret_cast<E*>(scratch_ + s.offset);
    }
    template <class E = T>
    const E* input(std::size_t k) const {
      return static_cast<const E*>(inputs_[k]) + op_.inputs_[k].offset(index_);
    }
    template <class E = T>
    E* output(std::size_t k) const {
      return static_cast<E*>(outputs_[k]) + op_.outputs_[k].offset(index_);
    }
    /// Input `k`, column by column, into `to`; rows and columns exchanged where asked.
    template <class E = T>
    E* load(std::size_t k, E* to, bool transposed = false) const {
      const BatchOperand& o = op_.inputs_[k];
      const E* from = input<E>(k);
      const int rows = transposed ? o.columns() : o.rows(), columns = transposed ? o.rows() : o.columns();
      const std::int64_t rs = transposed ? o.column_stride() : o.row_stride(),
                         cs = transposed ? o.row_stride() : o.column_stride();
      for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) to[static_cast<std::ptrdiff_t>(j) * rows + i] = from[i * rs + j * cs];
      return to;
    }
    /// Result `k`: element (i, j) is `of(i, j)`.
    template <class E = T, class F>
    void fill(std::size_t k, const F& of) const {
      const BatchOperand& o = op_.outputs_[k];
      E* to = output<E>(k);
      for (int j = 0; j < o.columns(); ++j)
        for (int i = 0; i < o.rows(); ++i) to[i * o.row_stride() + j * o.column_stride()] = of(i, j);
    }
    /// Result `k` from columns `leading` apart.
    template <class E = T>
    void store(std::size_t k, const E* from, int leading) const {
      fill<E>(k, [&](int i, int j) { return from[static_cast<std::ptrdiff_t>(j) * leading + i]; });
    }
    template <class E>
    void number(std::size_t k, E value) const {
      *output<E>(k) = value;
    }

   private:
    const MatrixBatch& op_;
    std::span<const void* const> inputs_;
    std::span<void* const> outputs_;
    std::byte* scratch_;
    std::int64_t index_;
  };

  /// Sizes are known: checks them and asks for scratch memory.
  virtual void setup() = 0;
  /// 0, or what `failure` turns into a message.
  virtual int one(const Item&) = 0;
  virtual std::string failure(int info) const { return fmt::format("{}: LAPACK says {}", name_, info); }

  template <class E = T>
  Slot slot(std::int64_t count) {
    const Slot s{bytes_};
    bytes_ += (static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(E) + 63) / 64 * 64;
    return s;
  }
  template <class... Args>
  [[noreturn]] void refuse(const char* what) const {
    fail("{}: {}", name_, what);
  }
  const BatchOperand& in(std::size_t k) const { return inputs_[k]; }
  const BatchOperand& out(std::size_t k) const { return outputs_[k]; }

  std::string name_;

 private:
  std::vector<BatchOperand> bound(std::span<const BoundView> views, const std::vector<std::size_t>& ranks,
                                  const char* what) const {
    if (views.size() != ranks.size()) fail("{}: {} {} where there are {}", name_, views.size(), what, ranks.size());
    std::vector<BatchOperand> list;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (views[i].sizes.size() < ranks[i]) fail("{}: operand {} has too few dimensions", name_, i);
      for (std::int64_t size : views[i].sizes)
        if (size > INT32_MAX) fail("{}: LAPACK takes sizes up to {}", name_, INT32_MAX);
      list.push_back({views[i], ranks[i]});
    }
    return list;
  }

  std::vector<std::size_t> input_ranks_, output_ranks_;
  std::vector<BatchOperand> inputs_, outputs_;
  std::size_t bytes_ = 0;
  std::int64_t items_ = 0;
  int workers_ = 1;
};

/// The type of a matrix's parts, and whether it has two.
template <class T>
struct PartsOf {
  using Real = T;
  static constexpr bool kComplex = false;
};
template <class R>
struct PartsOf<std::complex<R>> {
  using Real = R;
  static constexpr bool kComplex = true;
};
template <class T>
using RealOf = typename PartsOf<T>::Real;
template <class T>
constexpr bool kIsComplex = PartsOf<T>::kComplex;

template <class T>
bool is_finite(T x) {
  return std::isfinite(std::real(x)) && std::isfinite(std::imag(x));
}

/// The best size of a work array, as LAPACK told it in the array's first element.
template <class T>
int work_size(T told) {
  return std::max(1, static_cast<int>(std::real(told) * RealOf<T>(1.0001)));
}

}  // namespace coil::runtime
