// Operators that this process itself carries out for the programs it runs: what calls that a plan leaves to its host
// are bound to, where no other host is given.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/host/host.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// An argument of one call: a tensor that is borrowed, a number, text (also for a dtype, device, memory format or
/// layout, by torch's name), or a list.
struct OperatorArgument
    : std::variant<std::monostate, bool, std::int64_t, double, std::string, Tensor, std::vector<OperatorArgument>> {
  using variant::variant;
};

/// Arguments in the order of the schema; those that it says are written to may be. Writes each result of its own into
/// the memory that is there for it, in the layout given. An output without storage is one that nobody reads. Throws
/// what the caller of the program is to see. Called by one thread for each context; several contexts may call at once.
using OperatorFunction =
    std::function<void(std::span<const OperatorArgument> arguments, std::span<const Tensor> outputs)>;

/// One that makes its results itself, since only it tells their sizes: all of them, in the order of the schema, in any
/// layout. Called as an OperatorFunction is.
using ResultsFunction = std::function<std::vector<Tensor>(std::span<const OperatorArgument> arguments)>;

/// A registered operator: its schema as it was given, and what carries it out: one of the two.
struct RegisteredOperator {
  std::string schema;
  OperatorFunction function;
  ResultsFunction make;
};
/// Runs it, whichever it is. Throws Error where results have another dtype or other sizes than the memory for them.
void call_operator(const RegisteredOperator&, std::string_view name, std::span<const OperatorArgument> arguments,
                   std::span<const Tensor> outputs);
/// The results that it makes. Throws Error for one that does not.
std::vector<Tensor> make_results(const RegisteredOperator&, std::string_view name,
                                 std::span<const OperatorArgument> arguments);

/// From now on programs that are loaded may call the operator of this schema, in torch's notation: `mylib::scale(Tensor
/// x, float by=1.0) -> Tensor`. Throws Error on a name that is taken.
void register_operator(std::string_view schema, OperatorFunction);
void register_operator(std::string_view schema, ResultsFunction);
/// The registration of `mylib.scale.default`; null where there is none. Throws Error where `schema` (if given) is
/// another. Lives as long as the process.
const RegisteredOperator* find_operator(std::string_view name, std::string_view schema = "");
/// Schemas of all, in order of name.
std::vector<std::string> registered_schemas();
/// The host of those operators: null for a name that is not there. Throws Error where a program was compiled for
/// another schema.
Host registered_operators();

/// `mylib.scale.default` of a schema in torch's notation. Throws Error where there is none.
std::string operator_name(std::string_view schema);

}  // namespace coil::runtime
