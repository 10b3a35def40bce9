// Windows as text: a thread's results are registers, and each load serves all of them that it is a part of.
#include <algorithm>
#include <unordered_set>

#include "codegen/cuda/forms.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

class Windows {
 public:
  Windows(ir::Graph& graph, const WindowPlan& plan, const Dialect& dialect)
      : plan_(plan), b_(graph, plan.nest, dialect) {
    const LaunchConfig& c = plan.choice.config;
    down_ = c.team;
    beside_ = c.rows;
    across_ = c.threads / (down_ * beside_);
    b_.in_place.outer = false;
    b_.lanes = {b_.nest.outer.back().var, c.vector};
  }

  Kernel print() {
    point();
    const std::size_t each = b_.nest.statements.size() / plan_.steps;
    for (std::size_t step = 0; step < plan_.steps; ++step)
      for (std::size_t k = 0; k < each; ++k)
        if (const Statement& s = b_.nest.statements[step * each + k]; s.role == Role::Reduce) add_point(step, s);
    std::stable_sort(sums_.begin(), sums_.end(), [](const Sums& a, const Sums& b) { return a.buffer < b.buffer; });
    for (const Sums& s : sums_) {
      b_.line("{} {}[{}];", s.accumulator.type, s.accumulator.name, vector());
      b_.put("#pragma unroll");
      b_.line("for (int j = 0; j < {}; ++j) {}[j] = {};", vector(), s.accumulator.name, s.accumulator.identity);
    }
    add_up();
    if (down_ > 1) combine();
    for (std::size_t step = 0; step < plan_.steps; ++step) finish_step(step, each);
    return b_.finish({.grid = {b_.env().simplify(blocks_), 1, 1}, .block = plan_.choice.config.threads});
  }

 private:
  /// A sum that the thread holds: of one result, by one statement.
  struct Sums {
    std::size_t step = 0;
    ir::BufferId buffer = 0;
    Accumulator accumulator;
    std::vector<const Statement*> points;
  };

  void add_point(std::size_t step, const Statement& s) {
    const ir::BufferId buffer = s.op->outs[0];
    auto found =
        std::find_if(sums_.begin(), sums_.end(), [&](const Sums& x) { return x.step == step && x.buffer == buffer; });
    if (found == sums_.end()) found = sums_.insert(sums_.end(), {step, buffer, accumulator(b_, s, sums_.size()), {}});
    found->points.push_back(&s);
  }

  int vector() const { return b_.lanes.width; }

  bool is_stepped(std::size_t dim) const {
    return std::any_of(plan_.outer.begin(), plan_.outer.end(), [&](const Unrolled& u) { return u.dim == dim; });
  }

  /// How many runs a loop has.
  Expr runs(std::size_t dim) const {
    for (const Unrolled& u : plan_.outer)
      if (u.dim == dim) return sym::ceil_div(plan_.sizes[dim].size, u.run);
    return plan_.sizes[dim].size;
  }

  void point() {
    const std::string& index = b_.index_type();
    const std::string wide = index == "i32" ? "u32" : "u64";
    const std::size_t last = b_.nest.outer.size() - 1;
    // Places of runs, the far dimension's fastest, so that the threads of a block share rows.
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < last; ++d)
      if (!is_stepped(d)) order.push_back(d);
    for (std::size_t k = plan_.outer.size(); k-- > 0;) order.push_back(plan_.outer[k].dim);
    std::vector<LoopDim> places;
    for (std::size_t d : order) places.push_back({b_.nest.outer[d].var, b_.env().simplify(runs(d))});
    std::erase_if(places, [](const LoopDim& d) { return d.size.is_constant(1); });
    const Expr count = b_.env().simplify(product_of(places));
    const Expr columns = b_.env().simplify(sym::ceil_div(plan_.sizes[last].size, across_ * vector()));
    b_.line("const int lx = {1} % {0}, ly = {1} / {0};", across_, b_.dialect.thread);
    const std::string along(b_.nest.outer[last].var.name()), end = b_.text(plan_.sizes[last].size);
    b_.line("{0} {1} = ({0})({6} % ({2}){3}) * {4} + lx * {5};", index, along, wide, b_.text(columns),
            across_ * vector(), vector(), b_.dialect.block);
    if (down_ > 1) {
      b_.line("const bool live = {} < {};", along, end);
      b_.line("if (!live) {} = 0;", along);
    } else {
      b_.line("if ({} >= {}) return;", along, end);
    }
    b_.line("{0} w = ({0}){3} / ({0}){1}{2};", wide, b_.text(columns),
            beside_ > 1 ? fmt::format(" * {} + ly", beside_) : "", b_.dialect.block);
    if (beside_ > 1) b_.line("if (w >= ({}){}) return;", wide, b_.text(count));
    for (std::size_t k = places.size(); k-- > 0;) {
      const std::string name(places[k].var.name());
      const std::string at = k > 0 ? fmt::format("w % ({}){}", wide, b_.text(places[k].size)) : "w";
      b_.line("{0} {1} = ({0})({2});{3}", index, name, at,
              k > 0 ? fmt::format(" w /= ({}){};", wide, b_.text(places[k].size)) : "");
      begin_early(name, places[k].var);
    }
    for (std::size_t d : order)
      if (std::none_of(places.begin(), places.end(), [&](const LoopDim& p) { return p.var == b_.nest.outer[d].var; }))
        b_.line("const {} {} = 0;", index, b_.nest.outer[d].var.name());
    blocks_ = columns * sym::ceil_div(count, beside_);
  }

  /// The last run of a dimension that runs do not divide ends with it.
  void begin_early(const std::string& name, Expr var) {
    for (const Unrolled& u : plan_.outer) {
      if (!(b_.nest.outer[u.dim].var == var) || u.whole) continue;
      b_.line("{0} = {0} * {1} < {2} ? {0} * {1} : {2};", name, u.run,
              b_.text(b_.env().simplify(plan_.sizes[u.dim].size - u.run)));
    }
  }

  /// What is added to a sum at a point of its window.
  struct Term {
    const Sums* sum;
    const Statement* statement;
  };

  /// Terms in the order in which what they load lies: those that read one row come together.
  std::vector<std::vector<Term>> rows() const {
    const std::size_t points = sums_[0].points.size(), near = plan_.outer.empty() ? 1 : run_of(plan_.outer.back()),
                      of_row = plan_.inner.empty() ? 1 : run_of(plan_.inner.back());
    std::vector<Expr> places;
    std::vector<std::vector<Term>> rows;
    for (std::size_t row = 0; row < points; row += of_row)
      for (std::size_t first = 0; first < sums_.size(); first += near) {
        std::vector<Term> terms;
        for (std::size_t k = first; k < first + near; ++k)
          for (std::size_t p = row; p < row + of_row; ++p)
            if (!adds_nothing(*sums_[k].points[p])) terms.push_back({&sums_[k], sums_[k].points[p]});
        if (terms.empty()) continue;
        const Expr place = place_of(terms[0].statement->body);
        const auto at = std::find(places.begin(), places.end(), place) - places.begin();
        if (static_cast<std::size_t>(at) == places.size()) places.push_back(place), rows.emplace_back();
        auto& there = rows[static_cast<std::size_t>(at)];
        there.insert(there.end(), terms.begin(), terms.end());
      }
    return rows;
  }

  static std::size_t run_of(const Unrolled& u) { return static_cast<std::size_t>(u.run); }

  /// Products with what lies outside of an operand for certain.
  static bool adds_nothing(const Statement& s) {
    if (std::get<ir::Reduction>(s.op->node).kind != ir::ReductionKind::Sum) return false;
    auto is_zero = [](Scalar x) { return x->op == ScalarOp::Constant && x->number == 0 && x->integer == 0; };
    return is_zero(s.body) || (s.body->op == ScalarOp::Mul && std::ranges::any_of(s.body->args, is_zero));
  }

  const Sums& sum_of(std::size_t step, ir::BufferId buffer) const {
    return *std::find_if(sums_.begin(), sums_.end(),
                         [&](const Sums& s) { return s.step == step && s.buffer == buffer; });
  }

  /// Where the largest operand of a point is read.
  Expr place_of(Scalar body) const {
    Expr at = 0;
    std::int64_t most = -1;
    for (Scalar l : ir::loads(body)) {
      const std::int64_t size = b_.graph.env().hint_or(sym::product(b_.graph.buffer(l->buffer).layout.sizes), 0);
      if (size > most) most = size, at = l->index[0];
    }
    return at;
  }

  void add_up() {
    auto all = [&] {
      for (const auto& row : rows()) {
        std::vector<Scalar> bodies;
        for (const Term& t : row) bodies.push_back(t.statement->body);
        b_.elements(ir::topological(bodies), {}, [&] {
          for (const Term& t : row) {
            Accumulator a = t.sum->accumulator;
            a.statement = t.statement;
            accumulate(b_, a, b_.lane());
          }
        });
      }
    };
    if (b_.nest.inner.empty()) return b_.block("", all);
    const std::string& index = b_.index_type();
    b_.block(fmt::format("for ({0} q = ({0})ly; q < {1}; q += {2})", index,
                         b_.text(b_.env().simplify(product_of(b_.nest.inner))), down_),
             [&] {
               decode(b_, b_.nest.inner, "q");
               all();
             });
  }

  /// The threads that share sums put their parts together, some sums at a time.
  void combine() {
    const std::size_t at_once = std::min(sums_.size(), plan_.sums_at_once);
    const std::string& type = sums_[0].accumulator.type;
    b_.shared(fmt::format("{} parts[{}][{}][{}]", type, at_once, down_, across_ * vector()));
    const std::string place = fmt::format("[lx * {} + j]", vector());
    const std::string lanes = fmt::format("for (int j = 0; j < {}; ++j)", vector());
    for (std::size_t from = 0; from < sums_.size(); from += at_once) {
      const std::size_t count = std::min(at_once, sums_.size() - from);
      if (from > 0) b_.put("c_sync();");
      for (std::size_t k = 0; k < count; ++k)
        b_.line("{} parts[{}][ly]{} = {}[j];", lanes, k, place, sums_[from + k].accumulator.name);
      b_.put("c_sync();");
      b_.block(fmt::format("for (int i = ly; i < {}; i += {})", count, down_), [&] {
        b_.block(lanes, [&] {
          b_.line("{} sum = parts[i][0]{};", type, place);
          b_.line("for (int y = 1; y < {}; ++y) sum = {}(sum, parts[i][y]{});", down_, sums_[0].accumulator.op, place);
          b_.line("parts[i][0]{} = sum;", place);
        });
      });
      b_.put("c_sync();");
      for (std::size_t k = 0; k < count; ++k)
        b_.line("{} {}[j] = parts[{}][0]{};", lanes, sums_[from + k].accumulator.name, k, place);
    }
    b_.store_guard = "if (live && ly == 0) ";
  }

  void finish_step(std::size_t step, std::size_t each) {
    std::unordered_set<ir::BufferId> finished;
    for (std::size_t k = 0; k < each; ++k) {
      const Statement& s = b_.nest.statements[step * each + k];
      const ir::BufferId out = s.op->outs[0];
      if (s.role == Role::Reduce) {
        if (!finished.insert(out).second) continue;
        const std::string name = sum_of(step, out).accumulator.name;
        b_.set_local(out, name, true);
        if (s.stored) b_.elements({}, std::vector<const Statement*>{&s}, [&] { b_.store(s, name + b_.lane()); });
        continue;
      }
      const std::string local = b_.fresh("l");
      b_.line("{} {}[{}];", cuda_register_type(s.body->dtype), local, vector());
      b_.block("", [&] {
        const std::vector<const Statement*> stores{&s};
        b_.elements(roots_of(stores), stores, [&] {
          const std::string value = b_.name(s.body);
          b_.line("{}{} = {};", local, b_.lane(), value);
          if (s.stored) b_.store(s, value);
        });
      });
      b_.set_local(out, local, true);
    }
  }

  const WindowPlan& plan_;
  KernelBuilder b_;
  int across_ = 32, beside_ = 1, down_ = 1;
  std::vector<Sums> sums_;
  Expr blocks_ = 1;
};

}  // namespace

Kernel cuda_windows(ir::Graph& graph, const WindowPlan& plan, const Dialect& dialect) {
  return Windows(graph, plan, dialect).print();
}

}  // namespace coil::codegen
