#include "wrapper/symbols.h"

#include "support/error.h"
#include "sym/print.h"

namespace coil::wrapper {
namespace {

struct Source {
  std::size_t input, dim;
  DefineSymbol::From from;
  Expr value;
};

bool is_size_symbol(Expr s) { return s.symbol_kind() != sym::SymbolKind::Loop; }

class Solver {
 public:
  Solver(Program& p, const std::vector<std::pair<std::size_t, Expr>>& numbers) : p_(p) {
    for (auto [input, value] : numbers) sources_.push_back({input, 0, DefineSymbol::From::Value, value});
    for (auto from : {DefineSymbol::From::Size, DefineSymbol::From::Stride})
      for (std::size_t i = 0; i < p.inputs.size(); ++i) {
        if (p.inputs[i].unused) continue;
        const Buffer& b = p.buffers[p.inputs[i].buffer];
        const Exprs& values = from == DefineSymbol::From::Size ? b.sizes : b.strides;
        for (std::size_t d = 0; d < values.size(); ++d) sources_.push_back({i, d, from, values[d]});
      }
  }

  std::vector<Line> solve() {
    for (bool progress = true; progress;) {
      progress = false;
      for (const Source& s : sources_) progress = define(s) || progress;
    }
    for (Expr s : wanted()) {
      if (!known_.contains(s)) fail("the size {} cannot be found from the sizes of the program's inputs", s.name());
      check_range(s);
    }
    for (const sym::Guard& g : p_.env->guards()) lines_.push_back(Assert{g.condition, fmt::format("the program was compiled for sizes with {} ({})", sym::to_string(g.condition), g.reason)});
    return std::move(lines_);
  }

 private:
  /// Defines the one unknown symbol of a source, if it has just one and the source is linear in it.
  bool define(const Source& s) {
    Expr unknown;
    for (Expr x : sym::free_symbols(s.value))
      if (is_size_symbol(x) && !known_.contains(x)) {
        if (!unknown.is_constant()) return false;
        unknown = x;
      }
    if (unknown.is_constant()) return false;
    auto linear = sym::linear_in(s.value, unknown);
    if (!linear || linear->coefficient.is_constant(0)) return false;
    known_.insert(unknown);
    origin_[unknown] = &s;
    lines_.push_back(DefineSymbol{unknown, s.input, s.from, s.dim, linear->rest, linear->coefficient});
    return true;
  }

  Exprs wanted() const {
    Exprs out;
    auto take = [&](Expr e) {
      for (Expr s : sym::free_symbols(e))
        if (is_size_symbol(s) && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    };
    for (const Source& s : sources_)
      if (s.from != DefineSymbol::From::Stride) take(s.value);
    for (const Buffer& b : p_.buffers) take(b.bytes);
    return out;
  }

  std::string place(const Source& s) const {
    const std::string& name = p_.inputs[s.input].name;
    return s.from == DefineSymbol::From::Value ? name : fmt::format("size of {} in dimension {}", name, s.dim);
  }

  void check_range(Expr s) {
    const sym::Range r = p_.env->range(s);
    const Source& from = *origin_.at(s);
    if (r.low > 0 || (from.from == DefineSymbol::From::Value && r.low != sym::Range::kMin))
      lines_.push_back(Assert{sym::ge(s, r.low), fmt::format("the {} ({}) must be at least {}", place(from), sym::to_string(from.value), r.low)});
    if (r.high != sym::Range::kMax) lines_.push_back(Assert{sym::le(s, r.high), fmt::format("the {} ({}) must be at most {}", place(from), sym::to_string(from.value), r.high)});
  }

  Program& p_;
  std::vector<Source> sources_;
  std::unordered_set<Expr> known_;
  std::unordered_map<Expr, const Source*> origin_;
  std::vector<Line> lines_;
};

}  // namespace

void define_symbols(Program& p, const std::vector<std::pair<std::size_t, Expr>>& numbers) {
  std::vector<Line> lines = Solver(p, numbers).solve();
  lines.insert(lines.end(), std::make_move_iterator(p.lines.begin()), std::make_move_iterator(p.lines.end()));
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
