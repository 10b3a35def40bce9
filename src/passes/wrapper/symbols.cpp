#include "passes/wrapper/symbols.h"

#include <numeric>

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

/// Sizes that only several inputs together tell, such as s0 + s1 beside s0 - s1. Each is an equation over its terms
/// with unknown symbols (a product like s0*s1 is one term); equations are combined until some have one term left.
class Equations {
 public:
  /// factor·term = Σ given[k]·(size k) - known
  struct Solved {
    std::int64_t factor;
    Expr term, known;
    std::vector<std::int64_t> given;
  };

  /// `is_unknown` of a symbol. Nothing is solved where numbers leave 64 bits.
  Equations(const std::vector<Expr>& sizes, const std::function<bool(Expr)>& is_unknown) {
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      Row row{{}, std::vector<std::int64_t>(sizes.size(), 0), 0};
      row.given[k] = 1;
      const auto terms = sizes[k].kind() == sym::Kind::Add
                             ? std::vector(sizes[k].operands().begin(), sizes[k].operands().end())
                             : Exprs{sizes[k]};
      for (Expr t : terms) {
        const Exprs symbols = sym::free_symbols(t);
        if (std::none_of(symbols.begin(), symbols.end(), is_unknown)) {
          row.known += t;
          continue;
        }
        const std::optional<std::int64_t> factor =
            t.kind() == sym::Kind::Mul ? t.operands()[0].constant() : std::nullopt;
        const Expr term = factor ? sym::product(t.operands().subspan(1)) : t;
        auto column = std::find(terms_.begin(), terms_.end(), term);
        const auto at = static_cast<std::size_t>(column - terms_.begin());
        if (column == terms_.end()) terms_.push_back(term);
        row.factors.resize(std::max(row.factors.size(), terms_.size()), 0);
        row.factors[at] += factor.value_or(1);
      }
      if (!row.factors.empty()) rows_.push_back(std::move(row));
    }
    for (Row& row : rows_) row.factors.resize(terms_.size(), 0);
  }

  std::vector<Solved> solve() {
    std::vector<bool> used(rows_.size(), false);
    for (std::size_t column = 0; column < terms_.size(); ++column) {
      std::size_t pivot = 0;
      while (pivot < rows_.size() && (used[pivot] || rows_[pivot].factors[column] == 0)) ++pivot;
      if (pivot == rows_.size()) continue;
      used[pivot] = true;
      for (std::size_t r = 0; r < rows_.size(); ++r)
        if (r != pivot && rows_[r].factors[column] != 0 && !cancel(rows_[r], rows_[pivot], column)) return {};
    }
    std::vector<Solved> solved;
    for (const Row& row : rows_) {
      if (std::count_if(row.factors.begin(), row.factors.end(), [](std::int64_t f) { return f != 0; }) != 1) continue;
      const auto at = static_cast<std::size_t>(
          std::find_if(row.factors.begin(), row.factors.end(), [](std::int64_t f) { return f != 0; }) -
          row.factors.begin());
      solved.push_back({row.factors[at], terms_[at], row.known, row.given});
      if (row.factors[at] > 0) continue;
      Solved& s = solved.back();
      s.factor = -s.factor, s.known = -s.known;
      for (std::int64_t& g : s.given) g = -g;
    }
    return solved;
  }

 private:
  /// Σ factors[c]·terms_[c] + known = Σ given[k]·(size k)
  struct Row {
    std::vector<std::int64_t> factors, given;
    Expr known = 0;
  };

  static bool cancel(Row& row, const Row& pivot, std::size_t column) {
    const std::int64_t divisor = std::gcd(row.factors[column], pivot.factors[column]),
                       a = pivot.factors[column] / divisor, b = row.factors[column] / divisor;
    auto combine = [&](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        std::int64_t left = 0, right = 0;
        if (__builtin_mul_overflow(to[i], a, &left) || __builtin_mul_overflow(from[i], b, &right) ||
            __builtin_sub_overflow(left, right, &to[i]))
          return false;
      }
      return true;
    };
    if (!combine(row.factors, pivot.factors) || !combine(row.given, pivot.given)) return false;
    row.known = row.known * a - pivot.known * b;
    return true;
  }

  Exprs terms_;
  std::vector<Row> rows_;
};

class Solver {
 public:
  explicit Solver(Program& p) : p_(p) {
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
      if (p.inputs[i].number) sources_.push_back({i, 0, DefineSymbol::From::Value, *p.inputs[i].number});
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
      if (!progress) progress = define_together(false) || define_together(true);
    }
    const Exprs later = runtime_symbols(p_);
    for (Expr s : wanted()) {
      if (std::find(later.begin(), later.end(), s) != later.end()) continue;
      if (!known_.contains(s)) refuse(s);
      check_range(s);
    }
    for (const sym::Guard& g : p_.env->guards())
      lines_.push_back(Assert{g.condition, fmt::format("the program was compiled for sizes with {} ({})",
                                                       sym::to_string(g.condition), g.reason)});
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

  /// Defines what several sources together tell. Strides of dimensions of one element say nothing, so they come second.
  bool define_together(bool with_strides) {
    std::vector<const Source*> sources;
    Exprs values;
    for (const Source& s : sources_)
      if (with_strides || s.from != DefineSymbol::From::Stride) sources.push_back(&s), values.push_back(s.value);
    auto unknown = [&](Expr s) { return is_size_symbol(s) && !known_.contains(s); };
    bool progress = false;
    for (const Equations::Solved& found : Equations(values, unknown).solve()) {
      Exprs symbols = sym::free_symbols(found.term);
      std::erase_if(symbols, [&](Expr s) { return !unknown(s); });
      if (symbols.size() != 1) continue;
      auto linear = sym::linear_in(found.term, symbols[0]);
      if (!linear || linear->coefficient.is_constant(0)) continue;
      // All of it is written as one size less what must be taken from it.
      const auto anchor = static_cast<std::size_t>(
          std::find_if(found.given.begin(), found.given.end(), [](std::int64_t g) { return g != 0; }) -
          found.given.begin());
      if (anchor == sources.size()) continue;
      Exprs sizes;
      Expr total = -found.known;
      for (std::size_t k = 0; k < sources.size(); ++k) {
        sizes.push_back(found.given[k] == 0 ? Expr(0) : size_of(*sources[k]));
        total += sizes[k] * found.given[k];
      }
      const Expr subtract = sizes[anchor] + linear->rest * found.factor - total;
      for (std::size_t k = 0; k < sources.size(); ++k)
        if (sizes[k].is_symbol() && sym::contains(subtract, sizes[k]) && known_.insert(sizes[k]).second)
          lines_.push_back(DefineSymbol{sizes[k], sources[k]->input, sources[k]->from, sources[k]->dim});
      known_.insert(symbols[0]);
      origin_[symbols[0]] = sources[anchor];
      lines_.push_back(DefineSymbol{symbols[0], sources[anchor]->input, sources[anchor]->from, sources[anchor]->dim,
                                    subtract, linear->coefficient * found.factor});
      progress = true;
    }
    return progress;
  }

  /// The symbol that stands for a compound size as it is given.
  Expr size_of(const Source& s) {
    Expr& symbol = given_[&s];
    if (!symbol.is_constant()) return symbol;
    std::string name =
        fmt::format("given{}_{}{}", s.input, s.from == DefineSymbol::From::Stride ? "stride" : "", s.dim);
    while (p_.env->context().find(name)) name += "_";
    return symbol = p_.env->add_size(name, std::nullopt, {});
  }

  [[noreturn]] void refuse(Expr s) const {
    std::string places;
    for (const Source& from : sources_)
      if (from.from != DefineSymbol::From::Stride && sym::contains(from.value, s))
        places += fmt::format("{}the {} is {}", places.empty() ? "" : ", ", place(from), sym::to_string(from.value));
    fail("the size {} cannot be found from the sizes of the program's inputs{}", s.name(),
         places.empty() ? "" : " (" + places + "); give one that tells it alone");
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
      lines_.push_back(Assert{sym::ge(s, r.low), fmt::format("the {} ({}) must be at least {}", place(from),
                                                             sym::to_string(from.value), r.low)});
    if (r.high != sym::Range::kMax)
      lines_.push_back(Assert{sym::le(s, r.high), fmt::format("the {} ({}) must be at most {}", place(from),
                                                              sym::to_string(from.value), r.high)});
  }

  Program& p_;
  std::vector<Source> sources_;
  std::unordered_set<Expr> known_;
  std::unordered_map<Expr, const Source*> origin_;
  std::map<const Source*, Expr> given_;
  std::vector<Line> lines_;
};

}  // namespace

void define_symbols(Program& p) {
  std::vector<Line> lines = Solver(p).solve();
  lines.insert(lines.end(), std::make_move_iterator(p.lines.begin()), std::make_move_iterator(p.lines.end()));
  p.lines = std::move(lines);
}

}  // namespace coil::wrapper
