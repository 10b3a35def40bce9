// Tiles: runs of an outer dimension inside the vector loop, and blocks of vectors that are transposed in registers.
#include <algorithm>

#include "codegen/cpp/kernel_printer.h"

namespace coil::codegen {
namespace {

constexpr std::int64_t kTile = 16;       // run of a tiled dimension inside the vector loop: a cache line of f32
constexpr std::int64_t kWideTile = 128;  // the same, where whole vectors are transposed: as many lines of a row as are
                                         // fetched at little more than the cost of one
constexpr std::int64_t kFewTiles = 8;    // parallel points that wide tiles should leave
// Elements of a row that are fetched ahead, where the loops leave it after each vector.
constexpr std::int64_t kRowsAhead = 64;

}  // namespace

void Printer::choose_tile() {
  if (!nest_.tiled) return;
  tile_ = kTile;
  if (transposed_loads().empty()) return;
  Expr others = 1;
  for (std::size_t k = 0; k + 1 < nest_.outer.size(); ++k)
    if (nest_.tiled != k) others *= nest_.outer[k].size;
  const std::int64_t points = env().hint_or(others, 1), size = env().hint_or(nest_.outer[*nest_.tiled].size, kWideTile);
  tile_ = kWideTile;
  while (tile_ > kTile && points * ((size + tile_ - 1) / tile_) < kFewTiles) tile_ /= 2;
}

void Printer::fetch_tile_ahead(const std::vector<Scalar>& transposed) {
  // The processor does not see what comes next in loops that leave each row after one vector.
  if (tail_) return;
  const Expr tiled = nest_.outer[*nest_.tiled].var, start = env().loop_var(std::string(tiled.name()) + "_c");
  for (Scalar l : transposed) {
    const Expr step = sym::linear_in(l->index[0], *vector_)->coefficient,
               at = sym::substitute(l->index[0], std::span(&tiled, 1), std::vector<Expr>{start});
    line(fmt::format("for (i64 l = COIL_L; l < 2 * COIL_L; ++l) c_fetch_far({} + {} + {} * l);",
                     pointer(l->buffer, false), text(at), text(step)));
  }
}

void Printer::tile_loop() {
  if (!nest_.tiled) return versions([&] { levels(); });
  const std::string i(nest_.outer[*nest_.tiled].var.name());
  const auto loads = transposed_loads();
  line(fmt::format("i64 {0}_c = {0}_0;", i));
  if (!loads.empty()) {
    line(fmt::format("for (; {0}_c + COIL_L <= {0}_1; {0}_c += COIL_L) {{", i));
    in_scope([&] {
      const Expr var = nest_.outer[*nest_.tiled].var, start = env().loop_var(i + "_c");
      for (Scalar l : loads) {
        const std::string block = fresh();
        const Expr at = sym::substitute(l->index[0], std::span(&var, 1), std::vector<Expr>{start}),
                   step = sym::linear_in(l->index[0], *vector_)->coefficient;
        line(fmt::format("{} {}[COIL_L];", vector_type(l->dtype), block));
        line(fmt::format("c_tile_{}v({}, {} + {}, {}, {});", short_name(graph_.buffer(l->buffer).layout.dtype), block,
                         pointer(l->buffer, false), text(at), text(step), tail_ ? "n" : "COIL_L"));
        transposed_[l] = block + "[l]";
      }
      fetch_tile_ahead(loads);
      line("for (i64 l = 0; l < COIL_L; ++l) {");
      in_scope([&] {
        line(fmt::format("const i64 {0} = {0}_c + l;", i));
        for (Scalar l : rows_of_tile(loads))
          line(fmt::format("c_fetch({} + {} + {});", pointer(l->buffer, false), text(l->index[0]), kRowsAhead));
        levels();
      });
      line("}");
      transposed_.clear();
    });
    line("}");
  }
  line(fmt::format("for (i64 {0} = {0}_c; {0} < {0}_1; ++{0}) {{", i));
  in_scope([&] { levels(); });
  line("}");
}

std::vector<Scalar> Printer::rows_of_tile(const std::vector<Scalar>& transposed) {
  std::vector<Scalar> out;
  for (const Statement& s : nest_.statements)
    for (Scalar l : linear_loads(s)) {
      if (tail_ || !l->args.empty() || l->mask || made_.contains(l->buffer) ||
          std::ranges::find(transposed, l) != transposed.end() || std::ranges::find(out, l) != out.end())
        continue;
      const auto along = sym::linear_in(l->index[0], *vector_);
      if (along && along->coefficient.is_constant(1) && sym::contains(l->index[0], nest_.outer[*nest_.tiled].var))
        out.push_back(l);
    }
  return out;
}

std::vector<Scalar> Printer::transposed_loads() {
  std::vector<Scalar> out;
  const Expr tiled = nest_.outer[*nest_.tiled].var;
  for (const Statement& s : nest_.statements)
    for (Scalar l : linear_loads(s)) {
      const bool fits = l->dtype == DType::F32 || l->dtype == DType::I32 || l->dtype == DType::U32;
      if (!fits || !l->args.empty() || l->mask || made_.contains(l->buffer) ||
          std::find(out.begin(), out.end(), l) != out.end())
        continue;
      auto along = sym::linear_in(l->index[0], tiled), across = sym::linear_in(l->index[0], *vector_);
      if (!along || !along->coefficient.is_constant(1) || !varies(l->index[0]) || !across ||
          across->coefficient.is_constant(1) || sym::contains(across->coefficient, tiled))
        continue;
      // What this kernel writes must be read in its own turn.
      bool written = false;
      for (const Statement& t : nest_.statements) written |= t.op->outs[0] == l->buffer;
      if (!written) out.push_back(l);
    }
  return out;
}

}  // namespace coil::codegen
