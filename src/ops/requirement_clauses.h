// One thing that a call is asked (requirements_table.h), and what the checks of such clauses share.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/registry.h"

namespace coil::ops::clauses {

using Words = std::vector<std::string_view>;

/// One thing that is asked: `self floating`, `padding >= 0`, `target sizes self`.
struct Clause {
  std::string_view subject, verb;
  Words objects;
  void (*check)(const Call&,
                const Clause&);  ///< of an argument that the operator has not, or that is not given: nothing
};
using Checker = decltype(Clause::check);

Words split(std::string_view text, std::string_view separators);
std::int64_t integer(std::string_view word);
/// A number that is known now.
std::optional<double> known_number(const Value&);
/// Tensors that a clause is about: one argument, all of a list, or `tensors` for every one of the call.
std::vector<const TensorMeta*> tensors_of(const Call&, std::string_view subject);
/// The type that the operands of an element-wise operator are computed in.
DType promoted(const Call&);
/// The check of a verb about numbers, indices, and arguments that go together; null for other verbs.
Checker further_checker(std::string_view verb);

}  // namespace coil::ops::clauses
