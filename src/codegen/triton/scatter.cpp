// Scatters: a program stores, or combines atomically, what a block of iterations has for the places that data says.
// Sorted ones: the first of a place's iterations carries out all of them in order.
#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"
#include "codegen/triton/operations.h"

namespace coil::codegen {

using ir::Scalar;
using ir::StoreMode;

std::optional<std::string> no_triton_scatter(const ir::Graph& graph, const ir::Operation& op) {
  const auto& scatter = std::get<ir::Scatter>(op.node);
  const DType d = graph.buffer(op.outs[0]).layout.dtype;
  if (scatter.sorted || scatter.mode == StoreMode::Assign || !is_float8(d)) return std::nullopt;
  return fmt::format("atomic updates of {}", short_name(d));
}

namespace {

/// Triton's atomic operation, where it has one for all GPUs: of signed integers all but products, of floats addition.
std::string_view atomic_operation(StoreMode mode, DType d) {
  const bool words = d == DType::I32 || d == DType::I64;
  if (mode == StoreMode::Add && (words || (is_floating(d) && d != DType::BF16))) return "tl.atomic_add";
  if (mode == StoreMode::Max && words) return "tl.atomic_max";
  if (mode == StoreMode::Min && words) return "tl.atomic_min";
  return "";
}

std::string_view kind_of(StoreMode mode) {
  return mode == StoreMode::Max ? "max" : mode == StoreMode::Min ? "min" : mode == StoreMode::Prod ? "prod" : "add";
}

ir::ScalarOp operation_of(StoreMode mode) {
  switch (mode) {
    case StoreMode::Max: return ir::ScalarOp::Max;
    case StoreMode::Min: return ir::ScalarOp::Min;
    case StoreMode::Prod: return ir::ScalarOp::Mul;
    default: return ir::ScalarOp::Add;
  }
}

/// Iterations that hit one place are neighbours along a dimension. The first of them carries out all, one after the
/// other; where they assign, the last one stores.
class InOrder {
 public:
  explicit InOrder(TritonBody& b)
      : b_(b),
        s_(b.nest.statements[0]),
        scatter_(std::get<ir::Scatter>(s_.op->node)),
        along_(b.nest.inner[*scatter_.sorted]),
        at_(along_.var.name()) {}

  void print() {
    const bool assigns = scatter_.mode == StoreMode::Assign;
    const std::string there = b_.mask(kAlongX);
    b_.line("here = {}", at_);
    read_key("key", there);
    b_.line("{} = here {} 1", at_, assigns ? "+" : "-");
    read_key("neighbour", both(assigns ? is_inside() : fmt::format("({} >= 0)", at_), there));
    b_.line("{} = here", at_);
    b_.line("first = {}", both("(key != neighbour)", there));
    assigns ? assign() : combine();
  }

 private:
  static std::string both(const std::string& a, const std::string& b) { return b.empty() ? a : a + " & " + b; }
  std::string is_inside() { return fmt::format("({} < {})", at_, b_.text(along_.size)); }

  /// Which place is hit where the loop's variable stands; -1 where it stands outside.
  void read_key(const std::string& name, const std::string& there) {
    b_.among(there, [&] {
      const std::string key = b_.block_value(s_.indirect[0], kAlongX);
      b_.line("{} = {}", name, there.empty() ? key : fmt::format("tl.where({}, {}, -1)", there, key));
    });
  }

  void assign() {
    b_.among("first", [&] {
      const std::string x = b_.block_value(b_.value_to_store(s_), kAlongX);
      const auto place = b_.place(s_.op->outs[0], true, s_.store, s_.indirect, kAlongX);
      b_.line("tl.store({}, {}{})", place.pointers, triton_stored(x, type()), place.mask);
    });
  }

  void combine() {
    // What it is made of ends here: the loop's variable moves on.
    TritonBody::Place place;
    b_.among("first", [&] { place = b_.place(s_.op->outs[0], true, s_.store, s_.indirect, kAlongX); });
    b_.line("place = {}", place.pointers);
    b_.line("total = {}", triton_loaded(fmt::format("tl.load(place{}, other=0)", place.mask), type()));
    b_.line("left = first");
    b_.block("while c_any(left)", [&] {
      b_.among("left", [&] {
        const std::string x = b_.block_value(s_.body, kAlongX);
        const auto spelling = triton_spelling(operation_of(scatter_.mode), s_.body->dtype);
        b_.line("total = tl.where(left, {}, total)", fmt::format(fmt::runtime(spelling->text), "total", x));
      });
      b_.line("{0} = {0} + 1", at_);
      b_.line("left = left & {}", is_inside());
      read_key("following", "left");
      b_.line("left = left & (following == key)");
    });
    b_.line("tl.store(place, {}{})", triton_stored("total", type()), place.mask);
  }

  DType type() const { return b_.graph.buffer(s_.op->outs[0]).layout.dtype; }

  TritonBody& b_;
  const Statement& s_;
  const ir::Scatter& scatter_;
  const LoopDim along_;
  const std::string at_;
};

/// All iterations of a block at once.
void in_any_order(TritonBody& b) {
  const Statement& s = b.nest.statements[0];
  const auto& scatter = std::get<ir::Scatter>(s.op->node);
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const Scalar body = b.value_to_store(s);
  const std::string x = triton_stored(b.block_value(body, kAlongX), d);
  const auto at = b.place(s.op->outs[0], true, s.store, s.indirect, kAlongX);
  const std::string_view atomic = atomic_operation(scatter.mode, d);
  if (scatter.mode == StoreMode::Assign)
    b.line("tl.store({}, {}{})", at.pointers, x, at.mask);
  else if (!atomic.empty())
    b.line("{}({}, {}{}, sem=\"relaxed\")", atomic, at.pointers, x, at.mask);
  else
    b.line("{}({}, {}, {}, {}, \"{}\")", size_of(d) == 1 ? "c_update_byte" : "c_update", at.pointers,
           b.memory(s.op->outs[0]), x, at.mask.empty() ? "tl.full([1], True, tl.int1)" : at.mask.substr(2),
           kind_of(scatter.mode));
}

}  // namespace

Kernel triton_scatter(TritonBody& b, const BlockShape& block) {
  const Expr count = b.env().simplify(product_of(b.nest.inner));
  b.begin_x(count, block.x);
  b.decode(b.nest.inner, "xindex");
  const auto& scatter = std::get<ir::Scatter>(b.nest.statements[0].op->node);
  if (scatter.sorted && scatter.piece == 0)
    InOrder(b).print();
  else
    in_any_order(b);
  return b.finish({sym::ceil_div(count, block.x), 1, 1}, block.warps, {{"XBLOCK", block.x}}, false);
}

}  // namespace coil::codegen
