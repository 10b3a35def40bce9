// Values that repeat with each row of a kernel whose loads take them lane by lane, as those of groups of neighbouring
// channels are: gathered once into a row on the stack, which vectors then read.
#include <algorithm>

#include "codegen/cpp/kernel_printer.h"

namespace coil::codegen {
namespace {

constexpr std::int64_t kMostGathered = 4096;  // elements of such a row

}  // namespace

bool Printer::repeats_with_rows(Scalar load) {
  if (!load->args.empty() || load->mask || load->dtype != DType::F32 || made_.contains(load->buffer)) return false;
  const Expr index = load->index[0];
  if (!varies(index) || sym::linear_in(index, *vector_)) return false;
  // The last dimension other than the vector's is the one that steps from row to row.
  const auto depends_on = [&](const LoopDim& d) { return sym::contains(index, d.var); };
  return !depends_on(nest_.outer[nest_.outer.size() - 2]) && std::ranges::none_of(nest_.inner, depends_on);
}

void Printer::gather_rows() {
  if (!whole_row_ || nest_.outer.size() < 2 || nest_.tiled || nest_.shared || nest_.partition || scatters()) return;
  const auto size = nest_.outer.back().size.constant();
  if (!size || *size > kMostGathered) return;
  for (const Statement& s : nest_.statements)
    for (Scalar l : linear_loads(s))
      if (repeats_with_rows(l) && !gathered_.contains(l)) gather_row(l, *size);
}

void Printer::gather_row(Scalar load, std::int64_t size) {
  const std::string row = fmt::format("G{}", gathered_.size());
  gathered_.emplace(load, row);
  head_ += fmt::format("  alignas(64) f32 {0}[{1}];\n  i64 {0}_of = -1;\n", row, size + lanes_);
  // The dimensions outside of that one say which row is read.
  Expr key = 0;
  for (std::size_t k = 0; k + 2 < nest_.outer.size(); ++k)
    if (sym::contains(load->index[0], nest_.outer[k].var)) key = key * nest_.outer[k].size + nest_.outer[k].var;
  const std::string of = text(key);
  line(fmt::format("if ({0}_of != {1}) {{", row, of));
  in_scope([&] {
    line(fmt::format("{0}_of = {1};", row, of));
    const std::string at =
        text(sym::substitute(load->index[0], std::span(&*vector_, 1), std::vector<Expr>{env().loop_var("l")}));
    line(fmt::format("for (i64 l = 0; l < {}; ++l) {}[l] = c_load_{}({} + ({}));", size, row,
                     short_name(graph_.buffer(load->buffer).layout.dtype), pointer(load->buffer, false), at));
  });
  line("}");
}

}  // namespace coil::codegen
