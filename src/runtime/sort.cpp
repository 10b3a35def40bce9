#include "runtime/sort.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/attributes.h"
#include "runtime/half.h"
#include "runtime/threads.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// An element as an unsigned number of the same order: NaN last, both zeros equal.
template <class T>
std::uint64_t order_of(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::is_same_v<T, double>) {
    if (value != value) return UINT64_MAX;
    const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
    return bits >> 63 ? ~bits : bits | (std::uint64_t{1} << 63);
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    const auto wide = static_cast<float>(value);
    if (wide != wide) return UINT32_MAX;
    const auto bits = std::bit_cast<std::uint32_t>(wide == 0 ? 0.0f : wide);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
  } else if constexpr (sizeof(T) == 8) {
    return static_cast<std::uint64_t>(value) ^ (std::is_signed_v<T> ? std::uint64_t{1} << 63 : 0);
  } else {
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(value) - (std::is_signed_v<T> ? INT32_MIN : 0));
  }
}

using OrderFunction = std::uint64_t (*)(const std::byte*);

OrderFunction order_function(DType d) {
  switch (d) {
    case DType::F32: return order_of<float>;
    case DType::F64: return order_of<double>;
    case DType::F16: return order_of<F16>;
    case DType::BF16: return order_of<BF16>;
    case DType::I8: return order_of<std::int8_t>;
    case DType::I16: return order_of<std::int16_t>;
    case DType::I32: return order_of<std::int32_t>;
    case DType::I64: return order_of<std::int64_t>;
    case DType::U8: case DType::Bool: return order_of<std::uint8_t>;
    case DType::U16: return order_of<std::uint16_t>;
    case DType::U32: return order_of<std::uint32_t>;
    case DType::U64: return order_of<std::uint64_t>;
    default: fail("sort does not take {}", torch_name(d));
  }
}

/// Sorts by key, then by index; narrow keys share one word with their index, which sorts twice as fast.
struct NarrowEntry {
  std::uint64_t word;
  static NarrowEntry make(std::uint64_t key, std::uint64_t index) { return {key << 32 | index}; }
  std::uint64_t index() const { return word & UINT32_MAX; }
  auto operator<=>(const NarrowEntry&) const = default;
};
struct WideEntry {
  std::uint64_t key, place;
  static WideEntry make(std::uint64_t key, std::uint64_t index) { return {key, index}; }
  std::uint64_t index() const { return place; }
  auto operator<=>(const WideEntry&) const = default;
};

class SortOp : public LibraryOp {
 public:
  SortOp(const Attributes& attributes, bool descending) : dim_(int_attribute(attributes, "dim", -1)), descending_(descending) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 1 || outputs.size() != 2 || outputs[1].dtype != DType::I64 || outputs[0].dtype != inputs[0].dtype)
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
    if (values_.sizes != expected || indices_.sizes != expected || kept_ > length_) fail("sort: the results do not have the sizes of x");
    order_ = order_function(x_.dtype);
    rows_ = length_ == 0 ? 0 : numel(x_.sizes) / length_;
    narrow_ = size_of(x_.dtype) <= 4 && length_ <= std::int64_t{UINT32_MAX};
    chunks_ = chunk_count(rows_, 1 + 4096 / (length_ + 1), thread_count());
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_) * row_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    parallel_ranges(chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        std::byte* entries = static_cast<std::byte*>(workspace) + static_cast<std::size_t>(chunk) * row_bytes();
        for (std::int64_t row = rows_ * chunk / chunks_; row < rows_ * (chunk + 1) / chunks_; ++row) {
          if (narrow_) sort_row(reinterpret_cast<NarrowEntry*>(entries), row, inputs, outputs);
          else sort_row(reinterpret_cast<WideEntry*>(entries), row, inputs, outputs);
        }
      }
    });
  }

 private:
  std::size_t row_bytes() const { return (static_cast<std::size_t>(length_) * (narrow_ ? sizeof(NarrowEntry) : sizeof(WideEntry)) + 63) / 64 * 64; }

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

  template <class Entry>
  void sort_row(Entry* entries, std::int64_t row, std::span<const void* const> inputs, std::span<void* const> outputs) const {
    const auto item = static_cast<std::int64_t>(size_of(x_.dtype));
    const std::byte* x = static_cast<const std::byte*>(inputs[0]) + row_offset(x_, row) * item;
    const std::uint64_t flip = !descending_ ? 0 : narrow_ ? UINT32_MAX : UINT64_MAX;
    for (std::int64_t i = 0; i < length_; ++i) entries[i] = Entry::make(order_(x + i * x_.strides[at_] * item) ^ flip, static_cast<std::uint64_t>(i));
    if (kept_ * 8 < length_) std::partial_sort(entries, entries + kept_, entries + length_);
    else std::sort(entries, entries + length_);
    std::byte* values = static_cast<std::byte*>(outputs[0]) + row_offset(values_, row) * item;
    std::int64_t* indices = static_cast<std::int64_t*>(outputs[1]) + row_offset(indices_, row);
    for (std::int64_t i = 0; i < kept_; ++i) {
      const auto from = static_cast<std::int64_t>(entries[i].index());
      std::memcpy(values + i * values_.strides[at_] * item, x + from * x_.strides[at_] * item, static_cast<std::size_t>(item));
      indices[i * indices_.strides[at_]] = from;
    }
  }

  std::int64_t dim_;
  bool descending_, narrow_ = false;
  BoundView x_, values_, indices_;
  std::size_t at_ = 0;
  std::int64_t length_ = 0, kept_ = 0, rows_ = 0;
  int chunks_ = 1;
  OrderFunction order_ = nullptr;
};

}  // namespace

std::unique_ptr<LibraryOp> make_sort(const Attributes& attributes) {
  return std::make_unique<SortOp>(attributes, int_attribute(attributes, "descending", 0) != 0);
}

std::unique_ptr<LibraryOp> make_topk(const Attributes& attributes) {
  return std::make_unique<SortOp>(attributes, int_attribute(attributes, "largest", 1) != 0);
}

}  // namespace coil::runtime
