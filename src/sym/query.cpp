// Walks over expressions: substitution, free symbols, evaluation, linear form.
#include "sym/node.h"

namespace coil::sym {

namespace {

constexpr std::uint32_t kTreeWeight = 4096;  // expressions up to this size are walked as trees, larger ones with a memo

using Memo = std::unordered_map<const Node*, Expr>;

/// Calls `f` on the operands, and makes the expression anew where one of them changed. A choice whose condition is
/// decided builds only the side taken.
template <class F>
Expr rebuild(Expr e, F&& f) {
  auto operands = e.operands();
  if (e.kind() == Kind::Where) {
    Expr condition = f(operands[0]);
    if (auto c = condition.constant()) return f(*c ? operands[1] : operands[2]);
    Expr yes = f(operands[1]), no = f(operands[2]);
    if (condition == operands[0] && yes == operands[1] && no == operands[2]) return e;
    return where(condition, yes, no);
  }
  std::vector<Expr> changed;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Expr n = f(operands[i]);
    if (changed.empty() && n == operands[i]) continue;
    if (changed.empty()) {
      changed.reserve(operands.size());
      changed.assign(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(i));
    }
    changed.push_back(n);
  }
  return changed.empty() ? e : make(e.kind(), changed);
}

struct Substitution {
  std::span<const Expr> from, to;
  std::uint64_t filter = 0;
  Memo memo;

  Expr operator()(Expr e) {
    const Node* n = e.node();
    if (!n || !(n->symbol_filter & filter)) return e;
    if (n->kind == Kind::Symbol) {
      for (std::size_t i = 0; i < from.size(); ++i)
        if (from[i] == e) return to[i];
      return e;
    }
    if (auto it = memo.find(n); it != memo.end()) return it->second;
    Expr result = rebuild(e, *this);
    memo.emplace(n, result);
    return result;
  }
};

struct Rewriting {
  const std::function<std::optional<Expr>(Expr)>& f;
  Memo memo;

  Expr operator()(Expr e) {
    const Node* n = e.node();
    if (n)
      if (auto it = memo.find(n); it != memo.end()) return it->second;
    std::optional<Expr> given = f(e);
    Expr result = given ? *given : n && n->count ? rebuild(e, *this) : e;
    if (n) memo.emplace(n, result);
    return result;
  }
};

/// Visits every node below once; `enter` says whether to go on below a node.
template <class Enter>
void visit(Expr e, std::unordered_set<const Node*>& seen, Enter&& enter) {
  const Node* n = e.node();
  if (!n || !enter(e)) return;
  if (n->weight > 16 && !seen.insert(n).second) return;
  for (const Expr& o : e.operands()) visit(o, seen, enter);
}

struct Evaluation {
  const std::function<std::int64_t(Expr)>& lookup;
  bool memoize;
  std::unordered_map<const Node*, std::int64_t> memo;

  std::int64_t operator()(Expr e) {
    if (auto c = e.constant()) return *c;
    if (e.kind() == Kind::Symbol) return lookup(e);
    if (!memoize) return apply(e);
    if (auto it = memo.find(e.node()); it != memo.end()) return it->second;
    std::int64_t value = apply(e);
    memo.emplace(e.node(), value);
    return value;
  }

  std::int64_t apply(Expr e) {
    auto o = e.operands();
    switch (e.kind()) {
      case Kind::Where: return (*this)((*this)(o[0]) ? o[1] : o[2]);
      case Kind::And: return std::ranges::all_of(o, [&](Expr x) { return (*this)(x) != 0; });
      case Kind::Float: {
        std::vector<Expr> known;
        for (Expr x : o) known.push_back((*this)(x));
        return *make(Kind::Float, known).constant();
      }
      case Kind::Or: return std::ranges::any_of(o, [&](Expr x) { return (*this)(x) != 0; });
      default: break;
    }
    std::int64_t value = (*this)(o[0]);
    if (o.size() == 1) return value == 0;
    for (std::size_t i = 1; i < o.size(); ++i) {
      Expr operands[] = {value, (*this)(o[i])};
      value = *make(e.kind(), operands).constant();
    }
    return value;
  }
};

}  // namespace

Expr substitute(Expr e, std::span<const Expr> from, std::span<const Expr> to) {
  COIL_CHECK(from.size() == to.size(), "substitution of {} symbols by {} values", from.size(), to.size());
  Substitution s{from, to, 0, {}};
  for (const Expr& f : from) {
    COIL_CHECK(f.is_symbol(), "substitution of something that is not a symbol");
    s.filter |= f.node()->symbol_filter;
  }
  return s(e);
}

Expr rewrite(Expr e, const std::function<std::optional<Expr>(Expr)>& f) { return Rewriting{f, {}}(e); }

std::vector<Expr> free_symbols(Expr e) {
  std::vector<Expr> found;
  std::unordered_set<const Node*> seen;
  visit(e, seen, [&](Expr x) {
    if (x.is_symbol()) found.push_back(x);
    return true;
  });
  std::ranges::sort(found, before);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

bool contains(Expr e, Expr symbol) {
  COIL_CHECK(symbol.is_symbol(), "contains() of something that is not a symbol");
  const std::uint64_t filter = symbol.node()->symbol_filter;
  bool found = false;
  std::unordered_set<const Node*> seen;
  visit(e, seen, [&](Expr x) {
    found |= x == symbol;
    return !found && (x.node()->symbol_filter & filter) != 0;
  });
  return found;
}

bool has_symbol_of(Expr e, SymbolKind kind) {
  return e.node() && (e.node()->symbol_kinds >> static_cast<unsigned>(kind) & 1);
}

std::int64_t evaluate(Expr e, const std::function<std::int64_t(Expr)>& lookup) {
  return Evaluation{lookup, e.node() && e.node()->weight > kTreeWeight, {}}(e);
}

std::optional<Linear> linear_in(Expr e, Expr symbol) {
  if (!contains(e, symbol)) return Linear{0, e};
  std::int64_t constant = 0;
  Terms terms = terms_of(e, constant), rest;
  std::vector<Expr> coefficients;
  for (const Term& t : terms) {
    if (!contains(t.monomial, symbol)) {
      rest.push_back(t);
      continue;
    }
    auto left = divide_monomial(t.monomial, symbol);
    if (!left || contains(*left, symbol)) return std::nullopt;
    coefficients.push_back(scaled(*left, t.coefficient));
  }
  return Linear{sum(coefficients), make_sorted_sum(rest, constant)};
}

}  // namespace coil::sym
