#include "runtime/groups/symmetric_sums.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "runtime/groups/reductions.h"
#include "runtime/views/half.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

/// Elements that are added up at a time: few enough that the sums stay in the nearest cache.
constexpr std::size_t kBlock = 1024;

using Parts = std::vector<const std::byte*>;
/// out[i] = Σ parts[r][i], in the order of the ranks, for elements from `begin` to `end`. `out` may be one of the
/// parts.
using Sum = void (*)(const Parts& parts, std::byte* out, std::size_t begin, std::size_t end);

template <class Stored, class Computed = Stored>
void add_up(const Parts& parts, std::byte* out, std::size_t begin, std::size_t end) {
  Computed sums[kBlock];
  for (std::size_t first = begin; first < end; first += kBlock) {
    const std::size_t n = std::min(kBlock, end - first);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const auto* from = reinterpret_cast<const Stored*>(parts[r]) + first;
      if (r == 0)
        for (std::size_t i = 0; i < n; ++i) sums[i] = static_cast<Computed>(from[i]);
      else
        for (std::size_t i = 0; i < n; ++i) sums[i] = Add()(sums[i], static_cast<Computed>(from[i]));
    }
    auto* to = reinterpret_cast<Stored*>(out) + first;
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<Stored>(sums[i]);
  }
}

Sum find(DType dtype) {
  switch (dtype) {
    case DType::U8: return add_up<std::uint8_t>;
    case DType::I8: return add_up<std::int8_t>;
    case DType::I16: return add_up<std::int16_t>;
    case DType::I32: return add_up<std::int32_t>;
    case DType::I64: return add_up<std::int64_t>;
    case DType::U16: return add_up<std::uint16_t>;
    case DType::U32: return add_up<std::uint32_t>;
    case DType::U64: return add_up<std::uint64_t>;
    case DType::Bool: return add_up<bool>;
    case DType::F16: return add_up<F16, float>;
    case DType::BF16: return add_up<BF16, float>;
    case DType::F32: return add_up<float>;
    case DType::F64: return add_up<double>;
    case DType::C64: return add_up<std::complex<float>>;
    case DType::C128: return add_up<std::complex<double>>;
    default: return nullptr;
  }
}

Sum sum_of(DType dtype) {
  if (const Sum found = find(dtype)) return found;
  fail("there are no sums of {} over shared memory", torch_name(dtype));
}

Parts operands(const SymmetricMemory& memory, std::size_t offset) {
  Parts parts;
  for (int r = 0; r < memory.size(); ++r) parts.push_back(memory.at(r) + offset);
  return parts;
}

/// Where the share of a rank begins. Shares are whole cache lines, so that no two ranks write to one.
std::size_t share_begin(const SymmetricMemory& memory, int rank, Elements e) {
  const std::size_t line = std::max<std::size_t>(1, 64 / size_of(e.dtype)), count = static_cast<std::size_t>(e.count),
                    ranks = static_cast<std::size_t>(memory.size()), lines = (count + line - 1) / line;
  return std::min(count, (lines + ranks - 1) / ranks * line * static_cast<std::size_t>(rank));
}

}  // namespace

bool has_symmetric_sum(DType dtype) { return find(dtype) != nullptr; }

void one_shot_sum(SymmetricMemory& memory, std::size_t offset, void* out, Elements e, const Doing& doing) {
  const Sum sum = sum_of(e.dtype);
  memory.barrier(doing);
  sum(operands(memory, offset), static_cast<std::byte*>(out), 0, static_cast<std::size_t>(e.count));
  memory.barrier(doing);
}

void two_shot_sum(SymmetricMemory& memory, std::size_t offset, void* out, Elements e, const Doing& doing) {
  const Sum sum = sum_of(e.dtype);
  const int rank = memory.rank();
  memory.barrier(doing);
  sum(operands(memory, offset), memory.data() + offset, share_begin(memory, rank, e), share_begin(memory, rank + 1, e));
  memory.barrier(doing);
  for (int step = 0; step < memory.size(); ++step) {
    const int r = (rank + step) % memory.size();  // not all from one rank at a time
    const std::size_t begin = share_begin(memory, r, e) * size_of(e.dtype),
                      end = share_begin(memory, r + 1, e) * size_of(e.dtype);
    std::memcpy(static_cast<std::byte*>(out) + begin, memory.at(r) + offset + begin, end - begin);
  }
  memory.barrier(doing);
}

}  // namespace coil::runtime::groups
