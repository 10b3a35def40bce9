#include "wrapper/weights_file.h"

#include <algorithm>

#include "support/error.h"
#include "tensor/safetensors.h"

namespace coil::wrapper {
namespace {

/// Memory that one constant, or several that overlap, lie in.
struct Piece {
  const std::byte *begin, *end;
  std::vector<std::size_t> constants;
};

std::vector<bool> used_constants(const Program& p) {
  std::vector<bool> used(p.constants.size(), false);
  auto mark = [&](BufferId b) {
    if (p.buffers[b].kind == BufferKind::Constant) used[p.buffers[b].index] = true;
  };
  for (const Line& l : p.lines) {
    const Uses u = uses(l);
    for (BufferId b : u.reads) mark(b);
    for (BufferId b : u.writes) mark(b);
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) mark(v->buffer);
  return used;
}

std::uint64_t span_bytes(const Tensor& t) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < t.sizes.size(); ++d) {
    if (t.sizes[d] == 0) return 0;
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  return static_cast<std::uint64_t>(last + 1) * size_of(t.dtype);
}

std::vector<Piece> pieces_of(const Program& p) {
  const std::vector<bool> used = used_constants(p);
  std::vector<Piece> ranges, pieces;
  for (std::size_t i = 0; i < p.constants.size(); ++i) {
    const Tensor& t = p.constants[i].value;
    const std::uint64_t bytes = span_bytes(t);
    if (used[i] && bytes > 0) ranges.push_back({t.bytes(), t.bytes() + bytes, {i}});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.begin, a.constants) < std::tie(b.begin, b.constants);
  });
  for (Piece& r : ranges) {
    if (pieces.empty() || r.begin >= pieces.back().end) {
      pieces.push_back(std::move(r));
      continue;
    }
    pieces.back().end = std::max(pieces.back().end, r.end);
    pieces.back().constants.push_back(r.constants[0]);
  }
  return pieces;
}

/// The name of the first constant in a piece: addresses differ from run to run and may not reach the file.
std::string name_of(const Program& p, const Piece& piece) {
  return p.constants[*std::min_element(piece.constants.begin(), piece.constants.end())].name;
}

Tensor tensor_of(const Program& p, const Piece& piece) {
  const Tensor& first = p.constants[piece.constants[0]].value;
  if (piece.constants.size() == 1 && first.is_contiguous() && !safetensors_name(first.dtype).empty()) return first;
  Tensor out;
  out.dtype = DType::U8;
  out.sizes = {piece.end - piece.begin};
  out.strides = {1};
  out.storage = {std::shared_ptr<std::byte>(first.storage.data, const_cast<std::byte*>(piece.begin)),
                 static_cast<std::size_t>(piece.end - piece.begin)};
  return out;
}

}  // namespace

std::vector<std::optional<WeightPlace>> place_weights(const Program& p) {
  std::vector<std::optional<WeightPlace>> places(p.constants.size());
  for (const Piece& piece : pieces_of(p))
    for (std::size_t i : piece.constants) {
      const Tensor& t = p.constants[i].value;
      places[i] = WeightPlace{name_of(p, piece), static_cast<std::uint64_t>(t.bytes() - piece.begin), span_bytes(t)};
    }
  return places;
}

std::unique_ptr<AtomicFile> write_weights(const Program& p, const std::filesystem::path& path) {
  std::map<std::string, Tensor> file;
  for (const Piece& piece : pieces_of(p))
    COIL_CHECK(file.emplace(name_of(p, piece), tensor_of(p, piece)).second, "two constants have the name {}",
               name_of(p, piece));
  if (file.empty()) return nullptr;
  auto written = std::make_unique<AtomicFile>(path);
  write_safetensors(*written, file);
  written->complete();
  return written;
}

}  // namespace coil::wrapper
