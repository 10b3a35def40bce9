#include "codegen/triton/sort.h"

#include <fmt/format.h>

#include <bit>

#include "codegen/triton/operations.h"
#include "codegen/triton/template.h"
#include "library_ops/sorting.h"

namespace coil::codegen {
namespace {

namespace sorting = library_ops::sorting;

constexpr std::int64_t kShortest = 16, kLongest = 4096;  // elements of a block

/// Elements of a block that any row fits into; 0: rows may be longer.
std::int64_t block_of(const sym::ShapeEnv& env, Expr length) {
  for (std::int64_t n = kShortest; n <= kLongest; n *= 2)
    if (env.statically_known_le(length, n)) return n;
  return 0;
}

/// One kernel while it is written: a program's row of each view.
class SortedRows : public TritonTemplate {
 public:
  SortedRows(ir::Graph& graph, const ir::Extern& call, std::size_t dim)
      : TritonTemplate(graph), dim_(dim), views_{&call.inputs[0], &call.outputs[0], &call.outputs[1]} {}

  Kernel print(std::int64_t block, bool descending) {
    begin_rows();
    const DType d = views_[0]->dtype;
    const std::string length = number(length_of(*views_[0])), taken = number(length_of(*views_[1]));
    line("at = tl.arange(0, BLOCK)");
    line("x = tl.load({}, at < {}, other=0)", element(0, "at"), length);
    const std::string key = is_floating(d) ? "c_order_of_float" : "c_order_of_integer";
    line("ordered = tl.sort(c_with_place({}(x), at, {}, BLOCK, {}))", key, length, descending ? "True" : "False");
    line("place = c_place(ordered, BLOCK)");
    line("inside = at < {}", taken);
    line("tl.store({}, tl.load({}, inside, other=0), inside)", element(1, "at"), element(0, "place"));
    line("tl.store({}, place, inside)", element(2, "at"));
    return finish("coil_", {rows_, 1, 1}, block > 1024 ? 8 : 4, {{"BLOCK", static_cast<int>(block)}});
  }

 private:
  /// Where the program's row begins in each view: `o0`, `o1`, `o2`.
  void begin_rows() {
    for (std::size_t v = 0; v < 3; ++v) line("o{} = {}", v, number(views_[v]->offset));
    line("row = tl.cast(tl.program_id(0), tl.int64)");
    const Exprs& sizes = views_[0]->sizes;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (d == dim_) continue;
      rows_ *= sizes[d];
      const std::string size = number(sizes[d]);
      for (std::size_t v = 0; v < 3; ++v) line("o{0} += row % {1} * {2}", v, size, number(views_[v]->strides[d]));
      line("row = row // {}", size);
    }
  }

  Expr length_of(const ir::BufferView& v) const { return v.sizes.empty() ? Expr(1) : v.sizes[dim_]; }
  std::string element(std::size_t v, const std::string& place) {
    const std::string step = views_[v]->sizes.empty() ? "1" : number(views_[v]->strides[dim_]);
    return fmt::format("{} + (o{} + {}{})", pointer(*views_[v], v > 0), v, place, step == "1" ? "" : " * " + step);
  }

  std::size_t dim_;
  const ir::BufferView* views_[3];
  Expr rows_ = 1;
};

/// Whether an element and its place are one number of 64 bits.
bool leaves_room(const ir::Extern& call) {
  constexpr std::int64_t kBits = 40;  // c_with_place
  if (size_of(call.inputs[0].dtype) <= 4) return true;
  const auto bits = find(call.attributes, sorting::kBits);
  return bits && *bits <= kBits;
}

}  // namespace

std::variant<Kernel, std::string> triton_sort(ir::Graph& graph, const ir::Extern& call) {
  const bool best = call.op == sorting::kTopk;
  if (!best && call.op != sorting::kSort) return "a kernel written by hand";
  const ir::BufferView& x = call.inputs[0];
  const std::int64_t given = read(call.attributes, sorting::kDim), rank = static_cast<std::int64_t>(x.sizes.size());
  const auto dim = static_cast<std::size_t>(given < 0 ? given + rank : given);
  if (!leaves_room(call)) return fmt::format("an order of {} with places", short_name(x.dtype));
  for (const ir::BufferView& v : {x, call.outputs[0]})
    if (is_float8(v.dtype) || graph.buffer(v.buffer).layout.dtype != v.dtype)
      return fmt::format("an order of {}", short_name(v.dtype));
  if (!best && (read(call.attributes, sorting::kFirst) != 0 || read(call.attributes, sorting::kMiddle)))
    return "an order from a rank on";
  const std::int64_t block = block_of(graph.env(), rank ? x.sizes[dim] : Expr(1));
  if (block == 0) return fmt::format("an order of rows that may be longer than {}", kLongest);
  return SortedRows(graph, call, dim)
      .print(block, read(call.attributes, best ? sorting::kLargest : sorting::kDescending));
}

}  // namespace coil::codegen
