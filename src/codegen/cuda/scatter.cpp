// Scatters: a thread takes an iteration, or a run of neighbouring ones that write side by side. What hits one place
// combines by atomic updates; where it assigns, one of the writers wins, as in eager on a GPU. Sorted ones: one thread
// a place, which carries out the place's iterations in order.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

/// The first thread of a place's iterations combines all of them; where they assign, the last one's thread writes.
void in_order(KernelBuilder& b, const Statement& s, const ir::Scatter& scatter) {
  const LoopDim along = b.nest.inner[*scatter.sorted];
  const std::string index = b.index_type(), i(along.var.name()), n = b.text(along.size);
  auto key_at = [&](const std::string& variable, const std::string& place) {
    b.block("", [&] {
      if (place != i) b.line("const {} other = {};", index, place);
      b.block("", [&] {
        if (place != i) b.line("const {} {} = other;", index, i);
        const std::string key = b.name(s.indirect[0]);
        b.line("{} = {};", variable, key);
      });
    });
  };
  b.put("i64 key, neighbour = -1;");
  key_at("key", i);
  const bool assigns = scatter.mode == ir::StoreMode::Assign;
  b.block(assigns ? fmt::format("if ({} + 1 < {})", i, n) : fmt::format("if ({} > 0)", i),
          [&] { key_at("neighbour", assigns ? i + " + 1" : i + " - 1"); });
  b.put("if (neighbour == key) return;");
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string dtype(short_name(d)),
      place = fmt::format("{}[{}]", b.pointer(s.op->outs[0], true), b.text_with(s.store, {"key"}));
  if (assigns) return b.line("{} = c_put_{}({});", place, dtype, b.name(s.body));
  b.line("const {} first = {};", index, i);
  b.line("{} sum = c_get_{}({});", cuda_register_type(s.body->dtype), dtype, place);
  b.block(fmt::format("for ({0} {1} = first; {1} < {2}; ++{1})", index, i, n), [&] {
    const std::string here = b.name(s.indirect[0]);
    b.line("if ({} != key) break;", here);
    const std::string x = b.name(s.body);
    b.line("sum = {}(sum, {});", combining(scatter.mode), x);
  });
  b.line("{} = c_put_{}(sum);", place, dtype);
}

/// A run of values goes to `place` as one access.
void scatter_run(KernelBuilder& b, const Statement& s, ir::StoreMode mode, const std::string& place) {
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string dtype(short_name(d));
  const bool rounds = (d == DType::BF16 || d == DType::F16) && s.body->dtype == DType::F32;  // two at a time
  std::string run = b.fresh("o");
  if (rounds)
    b.line("f32 {}[{}];", run, b.lanes.width);
  else
    b.line("{} {};", b.pack_type(d), run);
  b.elements(roots_of(statements_of(b.nest)), {}, [&] {
    const std::string x = b.name(s.body);
    if (rounds)
      b.line("{}{} = {};", run, b.lane(), x);
    else
      b.line("{}.e{} = c_put_{}({});", run, b.lane(), dtype, x);
  });
  if (rounds) run = fmt::format("c_packed_{}({})", dtype, run);
  if (mode == ir::StoreMode::Assign)
    b.line("c_write<{}>({}, {});", b.lanes.width, place, run);
  else
    b.line("c_add_run_{}({}, {});", dtype, place, run);
}

/// One value goes to the element of the result at `index`.
void scatter_one(KernelBuilder& b, const Statement& s, ir::StoreMode mode, const std::string& buffer,
                 const std::string& index) {
  const DType d = b.graph.buffer(s.op->outs[0]).layout.dtype;
  const std::string x = b.name(s.body);
  if (mode == ir::StoreMode::Assign) return b.line("{}[{}] = c_put_{}({});", buffer, index, short_name(d), x);
  b.put(b.dialect.update({d, mode, buffer, index, x}));
}

/// A thread's piece of a sorted loop, for a run of neighbouring elements: values that hit one place are combined in
/// registers, and join what other pieces have for it when the place changes.
class InPieces {
 public:
  InPieces(KernelBuilder& b, const Statement& s, const ir::Scatter& scatter)
      : b_(b),
        s_(s),
        mode_(scatter.mode),
        along_(b.nest.inner[*scatter.sorted]),
        piece_(scatter.piece),
        stored_(b.graph.buffer(s.op->outs[0]).layout.dtype) {}

  /// The loops with one iteration for each piece.
  std::vector<LoopDim> pieces() const {
    std::vector<LoopDim> dims = b_.nest.inner;
    for (LoopDim& d : dims)
      if (d.var == along_.var) d.size = sym::ceil_div(d.size, piece_);
    return dims;
  }

  void print() {
    const std::string index = b_.index_type(), i(along_.var.name()), type(cuda_register_type(s_.body->dtype));
    const int width = b_.lanes.width;
    b_.line("{0} at = {1} * {2};", index, i, piece_);
    b_.line("const {0} end = at + {1} < {2} ? at + {1} : {2};", index, piece_, b_.text(along_.size));
    b_.line("{} total[{}];", type, width);
    b_.put("i64 place = -1;");
    b_.block(fmt::format("for (; at < end; at += {})", kUnderWay), [&] {
      b_.line("i64 keys[{}];", kUnderWay);
      b_.line("{} values[{}][{}];", type, kUnderWay, width);
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int r = 0; r < {}; ++r)", kUnderWay), [&] { read(index, i); });
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int r = 0; r < {}; ++r)", kUnderWay), [&] { combine(); });
    });
    join();
  }

 private:
  static constexpr int kUnderWay = 4;  // iterations whose values are on their way at once

  std::string each_lane(const std::string& statement) const {
    return fmt::format("for (int j = 0; j < {}; ++j) {}", b_.lanes.width, statement);
  }

  /// The place and the values of iteration `at + r`, or of the piece's last one, which is left out later.
  void read(const std::string& index, const std::string& i) {
    b_.line("const {} {} = at + r < end ? at + r : end - 1;", index, i);
    const std::string key = b_.name(s_.indirect[0]);
    b_.line("keys[r] = {};", key);
    b_.elements(roots_of(statements_of(b_.nest)), {}, [&] {
      const std::string x = b_.name(s_.body);
      b_.line("values[r]{} = {};", b_.lane(), x);
    });
  }

  void combine() {
    b_.put("if (at + r >= end) break;");
    b_.block("if (keys[r] != place)", [&] {
      join();
      b_.put("place = keys[r];");
      b_.put(each_lane("total[j] = values[r][j];"));
    });
    b_.block("else",
             [&] { b_.put(each_lane(fmt::format("total[j] = {}(total[j], values[r][j]);", combining(mode_)))); });
  }

  /// What the thread has for a place goes to memory.
  void join() {
    b_.block("if (place >= 0)", [&] {
      const std::string buffer = b_.pointer(s_.op->outs[0], true), where = b_.text_with(s_.store, {"place"});
      if (b_.lanes.width == 1) return b_.put(b_.dialect.update({stored_, mode_, buffer, where, "total[0]"}));
      if (mode_ != ir::StoreMode::Add)
        return b_.put(each_lane(b_.dialect.update({stored_, mode_, buffer, where + " + j", "total[j]"})));
      b_.line("{} o;", b_.pack_type(stored_));
      b_.put(each_lane(fmt::format("o.e[j] = c_put_{}(total[j]);", short_name(stored_))));
      b_.line("c_add_run_{}({} + {}, o);", short_name(stored_), buffer, where);
    });
  }

  KernelBuilder& b_;
  const Statement& s_;
  const ir::StoreMode mode_;
  const LoopDim along_;
  const std::int64_t piece_;
  const DType stored_;
};

}  // namespace

Kernel cuda_scatter(KernelBuilder& b, const LaunchConfig& config) {
  const Statement& s = b.nest.statements[0];
  const auto& scatter = std::get<ir::Scatter>(s.op->node);
  const std::string index = b.index_type();
  std::optional<InPieces> in_pieces;
  if (scatter.piece != 0) in_pieces.emplace(b, s, scatter);
  const std::vector<LoopDim> dims = in_pieces ? in_pieces->pieces() : b.nest.inner;
  const Expr count = b.env().simplify(product_of(dims));
  const int threads = config.threads, width = config.vector;
  const SymbolicLaunch launch{.grid = {sym::ceil_div(count, threads * width), 1, 1}, .block = threads};
  if (width == 1)
    b.line("const {0} w = ({0}){2} * {1} + {3};", index, threads, b.dialect.block, b.dialect.thread);
  else
    b.line("const {0} w = (({0}){3} * {1} + {4}) * {2};", index, threads, width, b.dialect.block, b.dialect.thread);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, dims, "w");
  b.stops_any_time = true;
  if (width > 1) b.lanes = {b.nest.inner.back().var, width};
  if (scatter.sorted) {
    in_pieces ? in_pieces->print() : in_order(b, s, scatter);
    return b.finish(launch);
  }
  std::vector<std::string> indirect;
  for (ir::Scalar i : s.indirect) {
    indirect.push_back(b.name(i));
    if (i->op == ir::ScalarOp::CheckIndex)
      b.line("if (c_outside({}, {})) return;", b.name(i->args[0]), b.text(i->index[0]));
  }
  const std::string buffer = b.pointer(s.op->outs[0], true), place = b.text_with(s.store, indirect);
  if (width > 1)
    scatter_run(b, s, scatter.mode, fmt::format("{} + {}", buffer, place));
  else
    scatter_one(b, s, scatter.mode, buffer, place);
  return b.finish(launch);
}

}  // namespace coil::codegen
