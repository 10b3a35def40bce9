#include "runtime/executor/constant_memory.h"

#include <algorithm>

#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kAlignment = 256;  // what vectorised kernels and GPU libraries like best

Tensor bytes_at(const Storage& storage, std::size_t offset, std::size_t bytes) {
  return {storage, DType::U8, {static_cast<std::int64_t>(bytes)}, {1}, static_cast<std::int64_t>(offset)};
}

}  // namespace

std::vector<ConstantPiece> constant_pieces(std::span<const Tensor> constants) {
  std::vector<ConstantPiece> all, merged;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const Tensor& t = constants[i];
    const std::int64_t span = layout_span(t.sizes, t.strides);
    if (span > 0) all.push_back({t.bytes(), t.bytes() + span * static_cast<std::int64_t>(size_of(t.dtype)), {i}});
  }
  std::sort(all.begin(), all.end(), [](const ConstantPiece& a, const ConstantPiece& b) { return a.begin < b.begin; });
  for (ConstantPiece& p : all) {
    if (!merged.empty() && p.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, p.end);
      merged.back().constants.push_back(p.constants[0]);
    } else {
      merged.push_back(std::move(p));
    }
  }
  return merged;
}

void move_piece(const ConstantPiece& piece, const Storage& to, std::size_t offset, std::span<Tensor> constants,
                Queue& queue) {
  const Tensor& first = constants[piece.constants[0]];
  Storage from = first.storage;
  from.data = std::shared_ptr<std::byte>(from.data, piece.begin);
  from.bytes = piece.bytes();
  queue.copy(bytes_at(to, offset, piece.bytes()), bytes_at(from, 0, piece.bytes()));
  for (std::size_t i : piece.constants) {
    Tensor& t = constants[i];
    const auto item = static_cast<std::int64_t>(size_of(t.dtype));
    const std::int64_t at = (t.bytes() - piece.begin) + static_cast<std::int64_t>(offset);
    COIL_CHECK(at % item == 0, "constant {} is misaligned in its memory", i);
    t.storage = to;
    t.offset = at / item;
  }
}

void move_constants(std::span<Tensor> constants, Queue& queue) {
  const QueueScope scope(queue);
  const std::vector<ConstantPiece> pieces = constant_pieces(constants);
  std::size_t bytes = 0;
  for (const ConstantPiece& p : pieces) bytes += (p.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes == 0) return;
  queue.planned_bytes = bytes;
  const Storage whole = queue.allocate(bytes);
  std::size_t at = 0;
  for (const ConstantPiece& p : pieces) {
    move_piece(p, whole, at, constants, queue);
    at += (p.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  queue.wait();
}

}  // namespace coil::runtime
