// A refusal that goes away when sizes that are free are fixed: a host with a tracer fixes them by a guard and compiles
// again.
#pragma once
#include <string>
#include <vector>

#include "support/error.h"
#include "sym/expr.h"

namespace coil::sym {

class NeedsValue : public Error {
 public:
  NeedsValue(const Error& refusal, Expr e) : Error(refusal) {
    for (const Expr& symbol : free_symbols(e)) symbols_.emplace_back(symbol.name());
  }
  /// Backed sizes, by name.
  const std::vector<std::string>& symbols() const { return symbols_; }

 private:
  std::vector<std::string> symbols_;
};

/// Throws the refusal, as NeedsValue where values of backed sizes tell the expression.
[[noreturn]] inline void refuse_free(const Error& refusal, Expr e) {
  if (has_symbol_of(e, SymbolKind::Unbacked) || has_symbol_of(e, SymbolKind::Loop)) throw Error(refusal);
  throw NeedsValue(refusal, e);
}

}  // namespace coil::sym
