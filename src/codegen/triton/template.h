// A kernel in Triton that is written for one library operation, while it is written.
#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernel_arguments.h"

namespace coil::codegen {

/// Why Triton has no kernel for the call: a buffer whose elements it takes for another type than they have.
std::optional<std::string> reads_as_another_type(const ir::Graph&, const ir::Extern& call);

class TritonTemplate {
 public:
  explicit TritonTemplate(ir::Graph& graph) : graph_(graph) {}

 protected:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... a) {
    body_ += "    " + fmt::format(format, std::forward<A>(a)...) + "\n";
  }
  /// A number of the host's by name, or the constant that it is.
  std::string number(Expr e) {
    if (const auto c = e.constant()) return std::to_string(*c);
    return arguments_.scalar(sym::to_string(e), e);
  }
  std::string pointer(const ir::BufferView& v, bool writes) { return arguments_.pointer(v.buffer, writes); }

  /// The name of the status word, which the kernel may fail by.
  std::string status() {
    may_fail_ = true;
    return "status";
  }

  /// `constants`: of the kernel, with their values; `symbol`: what its name begins with.
  Kernel finish(const std::string& symbol, Exprs grid, int warps, std::vector<std::pair<std::string, int>> constants);

  ir::Graph& graph_;

 private:
  KernelArguments arguments_;
  std::string body_;
  bool may_fail_ = false;
};

}  // namespace coil::codegen
