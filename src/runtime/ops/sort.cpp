// Sorting along one dimension: `sort` and `topk` (aten.sort.stable, aten.topk).
#include <algorithm>

#include "library_ops/sorting.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/radix_sort.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

class SortOp : public LibraryOp {
 public:
  SortOp(const Attributes& attributes, bool descending)
      : dim_(read(attributes, library_ops::sorting::kDim)),
        first_(read(attributes, library_ops::sorting::kFirst)),
        middle_(read(attributes, library_ops::sorting::kMiddle)),
        descending_(descending) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != 2 || outputs[1].dtype != DType::I64 ||
        outputs[0].dtype != inputs[0].dtype)
      fail("sort takes x and gives values and their indices");
    x_ = inputs[0];
    values_ = outputs[0];
    indices_ = outputs[1];
    const auto rank = static_cast<std::int64_t>(x_.sizes.size());
    const std::int64_t dim = dim_ < 0 ? dim_ + std::max<std::int64_t>(rank, 1) : dim_;
    if (dim < 0 || dim >= std::max<std::int64_t>(rank, 1)) fail("sort: dimension {} of {}", dim_, rank);
    for (BoundView* v : {&x_, &values_, &indices_}) {
      if (static_cast<std::int64_t>(v->sizes.size()) != rank) fail("sort: x and its results have other ranks");
      if (rank == 0) *v = {v->dtype, {1}, {1}};
    }
    at_ = static_cast<std::size_t>(dim);
    length_ = x_.sizes[at_];
    kept_ = values_.sizes[at_];
    Sizes expected = x_.sizes;
    expected[at_] = kept_;
    if (middle_) first_ = std::max<std::int64_t>(length_ - 1, 0) / 2;
    if (values_.sizes != expected || indices_.sizes != expected || first_ < 0 || kept_ > length_ - first_)
      fail("sort: the results do not have the sizes of x");
    with_ordered_type(x_.dtype, "sort", [&](auto zero) { key_bytes_ = sizeof(key_of(zero)); });
    rows_ = length_ == 0 ? 0 : numel(x_.sizes) / length_;
    if (kept_ == 0) rows_ = 0;
    one_ = first_ > 0 && kept_ == 1;
    few_ = first_ == 0 && kept_ < length_ / 8;
    chunks_ = chunk_count(rows_, 1 + 4096 / (length_ + 1), thread_count());
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_) * row_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    with_ordered_type(x_.dtype, "sort", [&](auto zero) {
      using T = decltype(zero);
      parallel_ranges(chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          std::byte* scratch = static_cast<std::byte*>(workspace) + static_cast<std::size_t>(chunk) * row_bytes();
          for (std::int64_t row = rows_ * chunk / chunks_; row < rows_ * (chunk + 1) / chunks_; ++row) {
            const Row<T> r{static_cast<const T*>(inputs[0]) + row_offset(x_, row),
                           x_.strides[at_],
                           static_cast<T*>(outputs[0]) + row_offset(values_, row),
                           values_.strides[at_],
                           static_cast<std::int64_t*>(outputs[1]) + row_offset(indices_, row),
                           indices_.strides[at_]};
            if (one_)
              narrow() ? put_rank<NarrowEntry>(r, scratch) : put_rank<WideEntry>(r, scratch);
            else if (!few_)
              sort_row(r, scratch);
            else if (narrow())
              select_row<NarrowEntry>(r, scratch);
            else
              select_row<WideEntry>(r, scratch);
          }
        }
      });
    });
  }

 private:
  template <class T>
  struct Row {
    const T* x;
    std::int64_t x_stride;
    T* values;
    std::int64_t values_stride;
    std::int64_t* indices;
    std::int64_t indices_stride;

    void put(std::int64_t at, std::uint64_t place) const {
      const auto from = static_cast<std::int64_t>(place);
      values[at * values_stride] = x[from * x_stride];
      indices[at * indices_stride] = from;
    }
  };

  bool narrow() const { return key_bytes_ <= 4 && length_ <= std::int64_t{UINT32_MAX}; }
  std::size_t row_bytes() const {
    const std::size_t bytes =
        few_ ? static_cast<std::size_t>(kept_) * sizeof(WideEntry) : sort_bytes(length_, key_bytes_);
    return (bytes + 63) / 64 * 64;
  }

  /// Offset in elements of the row's first element.
  std::int64_t row_offset(const BoundView& v, std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t d = v.sizes.size(); d-- > 0;) {
      if (d == at_) continue;
      offset += row % v.sizes[d] * v.strides[d];
      row /= v.sizes[d];
    }
    return offset;
  }

  template <class T>
  std::uint64_t key(T x) const {
    return descending_ ? static_cast<Key<T>>(~key_of(x)) : key_of(x);
  }

  template <class T>
  void sort_row(const Row<T>& r, std::byte* scratch) const {
    sort_by_key(
        length_, scratch, [&](std::int64_t i) { return key(r.x[i * r.x_stride]); },
        [&](const auto* entries, std::uint64_t) {
          for (std::int64_t i = 0; i < kept_; ++i) r.put(i, entries[first_ + i].place());
        });
  }

  template <class Entry, class T>
  void put_rank(const Row<T>& r, std::byte* scratch) const {
    auto* const entries = reinterpret_cast<Entry*>(scratch);
    for (std::int64_t i = 0; i < length_; ++i)
      entries[i] = Entry::make(key(r.x[i * r.x_stride]), static_cast<std::uint64_t>(i));
    r.put(0, select_rank(entries, length_, first_).place());
  }

  /// Few of many: the first ones seen so far, the last of them on top of a heap, which hardly any element comes before.
  template <class Entry, class T>
  void select_row(const Row<T>& r, std::byte* scratch) const {
    auto* const first = reinterpret_cast<Entry*>(scratch);
    Entry* const end = first + kept_;
    auto entry = [&](std::int64_t i) { return Entry::make(key(r.x[i * r.x_stride]), static_cast<std::uint64_t>(i)); };
    for (std::int64_t i = 0; i < kept_; ++i) first[i] = entry(i);
    std::make_heap(first, end);
    for (std::int64_t i = kept_; kept_ > 0 && i < length_; ++i) {
      if (key(r.x[i * r.x_stride]) >= first->key()) continue;  // an equal one comes after
      std::pop_heap(first, end);
      end[-1] = entry(i);
      std::push_heap(first, end);
    }
    std::sort_heap(first, end);
    for (std::int64_t i = 0; i < kept_; ++i) r.put(i, first[i].place());
  }

  std::int64_t dim_, first_;
  bool middle_, descending_, few_ = false, one_ = false;
  BoundView x_, values_, indices_;
  std::size_t at_ = 0;
  std::int64_t length_ = 0, kept_ = 0, rows_ = 0;
  std::size_t key_bytes_ = 8;
  int chunks_ = 1;
};

std::unique_ptr<LibraryOp> make_sort(const Attributes& attributes) {
  return std::make_unique<SortOp>(attributes, read(attributes, library_ops::sorting::kDescending));
}

std::unique_ptr<LibraryOp> make_topk(const Attributes& attributes) {
  return std::make_unique<SortOp>(attributes, read(attributes, library_ops::sorting::kLargest));
}

const DefineLibraryOps kSorts({{library_ops::sorting::kSort, make_sort}, {library_ops::sorting::kTopk, make_topk}});

}  // namespace

}  // namespace coil::runtime
