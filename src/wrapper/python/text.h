// Names, strings and numbers as Python writes them: nothing of the user's reaches code unescaped.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sym/expr.h"
#include "tensor/dtype.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// A string literal on one line, ASCII only.
std::string python_string(std::string_view);
/// A string literal over several lines, in triple quotes; whatever the text holds, it reads back as it is.
std::string python_block(std::string_view);
/// A comment's text: one line, whatever the text holds.
std::string python_comment(std::string_view);
std::string python_real(double);
/// `torch.float32`.
std::string python_dtype(DType);
/// `has_bias=1, post=["relu"]`, with a separator of the caller's choice between name and value.
std::string python_attribute(const Attribute&);
/// `torch.ops.aten.cumsum.default`; throws Error on a name that is none.
std::string python_operator(const std::string& op);
/// An argument of a call left to torch; `size` and `operand` say how integers and tensors are written.
std::string python_argument(const ops::CallArgument&, const std::function<std::string(sym::Expr)>& size,
                            const std::function<std::string(std::size_t)>& operand);
/// `(a,)`, `(a, b)`.
std::string python_tuple(const std::vector<std::string>&);

/// Identifiers of one program: valid, not a keyword, none given twice.
class PythonNames {
 public:
  /// `reserved`: what the file defines itself.
  explicit PythonNames(std::set<std::string> reserved);
  /// A name that nothing else has yet, as close to `name` as may be.
  std::string unique(std::string_view name);

 private:
  std::set<std::string> taken_;
};

}  // namespace coil::wrapper
