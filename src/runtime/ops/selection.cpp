// Operations that find positions: where a mask is true, what repeats how often, which rows are distinct.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "library_ops/selection.h"
#include "runtime/device/library.h"
#include "runtime/device/threads.h"
#include "runtime/ops/radix_sort.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

bool is_dense(const BoundView& v) {
  std::int64_t next = 1;
  for (std::size_t d = v.sizes.size(); d-- > 0;) {
    if (v.sizes[d] != 1 && v.strides[d] != next) return false;
    next *= v.sizes[d];
  }
  return true;
}

void expect(bool good, std::string_view op, const char* what) {
  if (!good) fail("{}: {}", op, what);
}

/// nonzero: a dense mask -> row-major positions of its true elements.
class NonzeroOp : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    expect(inputs.size() == 1 && outputs.size() == 1, "nonzero", "takes a mask and gives positions");
    expect(inputs[0].dtype == DType::Bool && (numel(inputs[0].sizes) == 0 || is_dense(inputs[0])), "nonzero",
           "the mask must be dense bools");
    expect(outputs[0].dtype == DType::I64 && outputs[0].sizes.size() == 1 && is_dense(outputs[0]), "nonzero",
           "positions are a list of int64");
    elements_ = numel(inputs[0].sizes);
    wanted_ = outputs[0].sizes[0];
    chunks_ = elements_ == 0 ? 0 : chunk_count(elements_, 1 << 15, thread_count());
  }

  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(chunks_) * sizeof(std::int64_t); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    const auto* mask = static_cast<const std::uint8_t*>(inputs[0]);
    auto* out = static_cast<std::int64_t*>(outputs[0]);
    auto* first = static_cast<std::int64_t*>(workspace);  // of each chunk's positions, its place among the results
    auto begin_of = [&](std::int64_t chunk) { return elements_ * chunk / std::max(chunks_, 1); };
    parallel_ranges(chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        std::int64_t count = 0;
        for (std::int64_t i = begin_of(c); i < begin_of(c + 1); ++i) count += mask[i] != 0;
        first[c] = count;
      }
    });
    std::int64_t found = 0;
    for (std::int64_t c = 0; c < chunks_; ++c) found += std::exchange(first[c], found);
    parallel_ranges(chunks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        // A block at a time beside the results: no branch on the data, and no write past this chunk's.
        std::int64_t at = first[c];
        const std::int64_t stop = begin_of(c + 1);
        for (std::int64_t from = begin_of(c); from < stop && at < wanted_; from += kBlock) {
          std::int64_t block[kBlock], count = 0;
          for (std::int64_t i = from; i < std::min(from + kBlock, stop); ++i) {
            block[count] = i;
            count += mask[i] != 0;
          }
          count = std::min(count, wanted_ - at);
          std::copy_n(block, count, out + at);
          at += count;
        }
      }
    });
    for (std::int64_t at = found; at < wanted_; ++at) out[at] = -1;
  }

 private:
  static constexpr std::int64_t kBlock = 256;
  std::int64_t elements_ = 0, wanted_ = 0;
  int chunks_ = 0;
};

/// repeat_positions: counts -> position 0 as often as its count says, then position 1, and so on.
class RepeatPositionsOp : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    expect(inputs.size() == 1 && outputs.size() == 1, "repeat_positions", "takes counts and gives positions");
    for (const BoundView& v : {inputs[0], outputs[0]})
      expect(v.dtype == DType::I64 && v.sizes.size() == 1 && is_dense(v), "repeat_positions",
             "takes and gives lists of int64");
    counts_ = inputs[0].sizes[0];
    wanted_ = outputs[0].sizes[0];
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    const auto* counts = static_cast<const std::int64_t*>(inputs[0]);
    auto* out = static_cast<std::int64_t*>(outputs[0]);
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < counts_; ++i) {
      if (counts[i] < 0) fail("repeats can not be negative");
      if (counts[i] > wanted_ - at) fail("repeat_interleave: the repeats add up to more than the {} results", wanted_);
      std::fill_n(out + at, counts[i], i);
      at += counts[i];
    }
    if (at != wanted_) fail("repeat_interleave: the repeats add up to {}, not to the {} results", at, wanted_);
  }

 private:
  std::int64_t counts_ = 0, wanted_ = 0;
};

/// How elements are ordered among distinct ones: below, equal, above. No NaN equals another, and all of them come last.
template <class T>
int compare(const std::byte* a, const std::byte* b) {
  T x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  if constexpr (kIsFloat<T>) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto v = static_cast<Wide>(x), w = static_cast<Wide>(y);
    if (v != v || w != w) return (v != v) == (w != w) ? 2 : (v != v) - (w != w);
    return v < w ? -1 : w < v ? 1 : 0;
  } else {
    return x < y ? -1 : y < x ? 1 : 0;
  }
}

using Compare = int (*)(const std::byte*, const std::byte*);

/// unique: a dense matrix -> its distinct rows (sorted, or as they come when only neighbours are compared), for each
/// row the one that it is, for each distinct one how many, and how many there are.
class UniqueOp : public LibraryOp {
 public:
  explicit UniqueOp(const Attributes& attributes)
      : consecutive_(read(attributes, library_ops::selection::kConsecutive)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    expect(inputs.size() == 1 && outputs.size() == 4, "unique",
           "takes rows and gives rows, inverse, counts and their number");
    expect(inputs[0].sizes.size() == 2 && outputs[0].sizes == inputs[0].sizes && outputs[0].dtype == inputs[0].dtype,
           "unique", "takes a matrix and gives one like it");
    for (const BoundView& v : {inputs[0], outputs[0]})
      expect(numel(v.sizes) == 0 || is_dense(v), "unique", "the matrix must be dense");
    rows_ = inputs[0].sizes[0];
    width_ = inputs[0].sizes[1];
    item_ = size_of(inputs[0].dtype);
    dtype_ = inputs[0].dtype;
    with_ordered_type(dtype_, "unique",
                      [&](auto zero) { compare_ = compare<decltype(zero)>, key_bytes_ = sizeof(key_of(zero)); });
  }

  std::size_t workspace_bytes() const override {
    return by_key() ? sort_bytes(rows_, key_bytes_) : static_cast<std::size_t>(rows_) * sizeof(std::int64_t);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    auto* values = static_cast<std::byte*>(outputs[0]);
    auto* inverse = static_cast<std::int64_t*>(outputs[1]);
    auto* counts = static_cast<std::int64_t*>(outputs[2]);
    std::int64_t found = 0;
    if (by_key()) {
      with_ordered_type(dtype_, "unique", [&](auto zero) {
        found = unique_keys<decltype(zero)>(inputs[0], outputs[0], inverse, counts, static_cast<std::byte*>(workspace));
      });
    } else {
      const auto* x = static_cast<const std::byte*>(inputs[0]);
      auto* order = static_cast<std::int64_t*>(workspace);
      std::iota(order, order + rows_, std::int64_t{0});
      if (!consecutive_)
        std::sort(order, order + rows_, [&](std::int64_t a, std::int64_t b) {
          const int c = compare_rows(x, a, b);
          return c == 0 || c == 2 ? a < b : c < 0;
        });
      const std::size_t row = static_cast<std::size_t>(width_) * item_;
      for (std::int64_t k = 0; k < rows_; ++k) {
        if (k == 0 || compare_rows(x, order[k - 1], order[k]) != 0) {
          if (row > 0)
            std::memcpy(values + static_cast<std::size_t>(found) * row, x + static_cast<std::size_t>(order[k]) * row,
                        row);
          counts[found++] = 0;
        }
        ++counts[found - 1];
        inverse[order[k]] = found - 1;
      }
    }
    std::memcpy(outputs[3], &found, sizeof found);
  }

 private:
  bool by_key() const { return width_ == 1 && !consecutive_; }

  /// Rows of one element each; gives how many distinct ones there are.
  template <class T>
  std::int64_t unique_keys(const void* input, void* output, std::int64_t* inverse, std::int64_t* counts,
                           std::byte* scratch) const {
    const auto* x = static_cast<const T*>(input);
    auto* values = static_cast<T*>(output);
    std::int64_t found = 0;
    if constexpr (std::is_integral_v<T>) {
      const auto [least, largest] = extremes(x, rows_);
      // A count for every number between them lies in the memory that a sort would take.
      if (rows_ > 0 && std::uint64_t{largest - least} < 2 * static_cast<std::uint64_t>(rows_))
        return unique_by_counting(x, rows_, least, largest, values, inverse, counts,
                                  reinterpret_cast<std::int64_t*>(scratch));
    }
    sort_by_key(
        rows_, scratch, [&](std::int64_t i) { return std::uint64_t{key_of(x[i])}; },
        [&](const auto* entries, std::uint64_t least) {
          for (std::int64_t k = 0; k < rows_; ++k) {
            const auto place = static_cast<std::int64_t>(entries[k].place());
            if (k == 0 || entries[k].key() != entries[k - 1].key() ||
                (kIsFloat<T> && entries[k].key() + least == kNanKey<T>)) {
              values[found] = x[place];
              counts[found++] = 0;
            }
            ++counts[found - 1];
            inverse[place] = found - 1;
          }
        });
    return found;
  }

  template <class T>
  static std::pair<Key<T>, Key<T>> extremes(const T* x, std::int64_t count) {
    std::pair<Key<T>, Key<T>> out{std::numeric_limits<Key<T>>::max(), 0};
    for (std::int64_t i = 0; i < count; ++i)
      out = {std::min(out.first, key_of(x[i])), std::max(out.second, key_of(x[i]))};
    return out;
  }

  /// Numbers that lie close together: how many there are of each says which occur, and which of those each is.
  template <class T>
  static std::int64_t unique_by_counting(const T* x, std::int64_t rows, Key<T> least, Key<T> largest, T* values,
                                         std::int64_t* inverse, std::int64_t* counts, std::int64_t* table) {
    const auto range = static_cast<std::int64_t>(largest - least) + 1;
    std::fill_n(table, range, 0);
    for (std::int64_t i = 0; i < rows; ++i) ++table[key_of(x[i]) - least];
    std::int64_t found = 0;
    for (std::int64_t k = 0; k < range; ++k) {
      if (table[k] == 0) continue;
      values[found] = of_key<T>(static_cast<Key<T>>(least + static_cast<Key<T>>(k)));
      counts[found] = table[k];
      table[k] = found++;
    }
    parallel_ranges(rows, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) inverse[i] = table[key_of(x[i]) - least];
    });
    return found;
  }

  int compare_rows(const std::byte* x, std::int64_t a, std::int64_t b) const {
    const std::size_t row = static_cast<std::size_t>(width_) * item_;
    const std::byte *p = x + static_cast<std::size_t>(a) * row, *q = x + static_cast<std::size_t>(b) * row;
    int unlike = 0;  // NaN against NaN: apart, but neither before the other
    for (std::size_t at = 0; at < row; at += item_) {
      const int c = compare_(p + at, q + at);
      if (c == 2)
        unlike = 2;
      else if (c != 0)
        return c;
    }
    return unlike;
  }

  bool consecutive_;
  std::int64_t rows_ = 0, width_ = 0;
  std::size_t item_ = 1, key_bytes_ = 8;
  DType dtype_ = DType::F32;
  Compare compare_ = nullptr;
};

const DefineLibraryOps kSelections({{library_ops::selection::kNonzero, call_site<NonzeroOp>},
                                    {library_ops::selection::kRepeatPositions, call_site<RepeatPositionsOp>},
                                    {library_ops::selection::kUnique, call_site<UniqueOp>}});

}  // namespace

}  // namespace coil::runtime
