// Sorts places of elements by their values, stably: elements become unsigned keys of the same order, keys are sorted
// digit by digit.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/views/half.h"
#include "support/error.h"
#include "tensor/dtype.h"

namespace coil::runtime {

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

/// The unsigned integer that is as wide as a key for values of T has to be.
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// What every NaN has for a key.
template <class T>
inline constexpr Key<T> kNanKey = std::numeric_limits<Key<T>>::max();

/// An element as an unsigned number of the same order: NaN last, both zeros equal.
template <class T>
Key<T> key_of(T value) {
  constexpr Key<T> sign = Key<T>{1} << (8 * sizeof(Key<T>) - 1);
  if constexpr (kIsFloat<T>) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const auto wide = static_cast<Wide>(value);
    if (wide != wide) return kNanKey<T>;
    const auto bits = std::bit_cast<Key<T>>(wide == 0 ? Wide{0} : wide);
    return bits & sign ? ~bits : bits | sign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key<T>>(static_cast<std::make_signed_t<Key<T>>>(value)) ^ sign;
  } else {
    return value;
  }
}

/// The whole number that has this key.
template <class T>
  requires std::is_integral_v<T>
T of_key(Key<T> key) {
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(static_cast<std::make_signed_t<Key<T>>>(key ^ Key<T>{1} << (8 * sizeof(Key<T>) - 1)));
  else
    return static_cast<T>(key);
}

/// Calls `body` with a value of the type of the elements; throws Error naming the operation when they have no order.
template <class Body>
decltype(auto) with_ordered_type(DType d, std::string_view op, Body&& body) {
  switch (d) {
    case DType::F32: return body(float{});
    case DType::F64: return body(double{});
    case DType::F16: return body(F16{});
    case DType::BF16: return body(BF16{});
    case DType::I8: return body(std::int8_t{});
    case DType::I16: return body(std::int16_t{});
    case DType::I32: return body(std::int32_t{});
    case DType::I64: return body(std::int64_t{});
    case DType::U8:
    case DType::Bool: return body(std::uint8_t{});
    case DType::U16: return body(std::uint16_t{});
    case DType::U32: return body(std::uint32_t{});
    case DType::U64: return body(std::uint64_t{});
    default: fail("{} does not take {}", op, torch_name(d));
  }
}

/// A key and the place of its element, ordered by key, then by place; narrow keys share one word with their place.
struct NarrowEntry {
  std::uint64_t word;
  static NarrowEntry make(std::uint64_t key, std::uint64_t place) { return {key << 32 | place}; }
  std::uint64_t key() const { return word >> 32; }
  std::uint64_t place() const { return word & UINT32_MAX; }
  auto operator<=>(const NarrowEntry&) const = default;
};
struct WideEntry {
  std::uint64_t k, p;
  static WideEntry make(std::uint64_t key, std::uint64_t place) { return {key, place}; }
  std::uint64_t key() const { return k; }
  std::uint64_t place() const { return p; }
  auto operator<=>(const WideEntry&) const = default;
};

/// Sorts entries that are in order of their places by key; `other` is as long. Returns which of the two holds the
/// result.
template <class Entry>
Entry* radix_sort(Entry* entries, Entry* other, std::int64_t count, std::uint64_t largest_key) {
  constexpr std::int64_t kFew = 256;  // for which counting digits costs more than comparing
  if (count < kFew) {
    std::sort(entries, entries + count);
    return entries;
  }
  const int digits = (static_cast<int>(std::bit_width(largest_key)) + 7) / 8;
  std::array<std::array<std::int64_t, 256>, 8> counts{};
  for (std::int64_t i = 0; i < count; ++i)
    for (int d = 0; d < digits; ++d) ++counts[static_cast<std::size_t>(d)][entries[i].key() >> 8 * d & 255];
  for (int d = 0; d < digits; ++d) {
    auto& next = counts[static_cast<std::size_t>(d)];
    if (std::find(next.begin(), next.end(), count) != next.end()) continue;  // all alike
    std::int64_t before = 0;
    for (std::int64_t& n : next) before += std::exchange(n, before);
    for (std::int64_t i = 0; i < count; ++i) other[next[entries[i].key() >> 8 * d & 255]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

/// The entry that would stand at `rank` if the entries, which are in order of their places, were sorted; they are lost.
/// Digit by digit from the highest, of those left only the ones with the digit that the rank falls on stay.
template <class Entry>
Entry select_rank(Entry* entries, std::int64_t count, std::int64_t rank) {
  constexpr std::int64_t kFew = 64;
  while (count > kFew) {
    std::uint64_t least = UINT64_MAX, largest = 0;
    for (std::int64_t i = 0; i < count; ++i)
      least = std::min(least, entries[i].key()), largest = std::max(largest, entries[i].key());
    if (least == largest) return entries[rank];
    const int shift = std::max(static_cast<int>(std::bit_width(largest - least)) - 8, 0);
    std::array<std::int64_t, 256> counts{};
    for (std::int64_t i = 0; i < count; ++i) ++counts[(entries[i].key() - least) >> shift];
    std::uint64_t digit = 0;
    while (rank >= counts[digit]) rank -= counts[digit++];
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count; ++i) {  // no branch on the data
      entries[kept] = entries[i];
      kept += (entries[i].key() - least) >> shift == digit;
    }
    count = kept;
  }
  std::sort(entries, entries + count);
  return entries[rank];
}

/// Bytes of scratch memory that `sort_by_key` wants for `count` keys of `key_bytes` (4 or 8) each.
inline std::size_t sort_bytes(std::int64_t count, std::size_t key_bytes) {
  const bool narrow = key_bytes <= 4 && count <= std::int64_t{UINT32_MAX};
  return 2 * static_cast<std::size_t>(count) * (narrow ? sizeof(NarrowEntry) : sizeof(WideEntry));
}

/// Sorts the places [0, count) by `key(place)` and calls `use(entries, least)` with them in order: an entry's key has
/// the least key taken away. `key` is called more than once for a place.
template <class KeyOf, class Use>
void sort_by_key(std::int64_t count, std::byte* scratch, const KeyOf& key, const Use& use) {
  std::uint64_t least = UINT64_MAX, largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t k = key(i);
    least = std::min(least, k), largest = std::max(largest, k);
  }
  auto sort_as = [&]<class Entry>(Entry* entries) {
    for (std::int64_t i = 0; i < count; ++i) entries[i] = Entry::make(key(i) - least, static_cast<std::uint64_t>(i));
    use(static_cast<const Entry*>(radix_sort(entries, entries + count, count, count ? largest - least : 0)),
        count ? least : 0);
  };
  if (count <= std::int64_t{UINT32_MAX} && (count == 0 || largest - least <= UINT32_MAX))
    sort_as(reinterpret_cast<NarrowEntry*>(scratch));
  else
    sort_as(reinterpret_cast<WideEntry*>(scratch));
}

}  // namespace coil::runtime
