// What shape functions share: arguments by name, questions about symbolic sizes, and definition of operators by tables.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "ops/registry.h"
#include "support/error.h"

namespace coil::ops::shapes {

using Env = sym::ShapeEnv;

/// Refuses a call the way eager would; the message starts with the operator's target.
template <class... Args>
[[noreturn]] void refuse(const Call& call, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(call.op.schema.target + ": " + fmt::format(format, std::forward<Args>(args)...), call.op.schema.target,
              "");
}

// Arguments.

/// The argument of this name; null when the schema has none of that name or its value is None.
const Value* given(const Call&, std::string_view name);
/// A bool argument; `fallback` when it is absent.
bool flag(const Call&, std::string_view name, bool fallback = false);
/// The `dtype` argument, if one was given.
std::optional<DType> given_dtype(const Call&);
/// The `memory_format` argument, if one was given.
std::optional<MemoryFormat> given_format(const Call&);
/// Every tensor among the arguments, lists included, in schema order.
std::vector<const TensorMeta*> tensors(const Call&);
/// An int argument that must be a plain number: a dimension, a count of outputs.
std::int64_t number(const Call&, std::string_view name);
/// Dimension `dim` of a tensor of this rank, from -rank to rank-1 (a scalar counts as rank 1); refuses others.
std::size_t wrap_dim(const Call&, std::int64_t dim, std::size_t rank);
/// The argument `name` as a dimension of a tensor of this rank.
std::size_t dim_argument(const Call&, std::size_t rank, std::string_view name = "dim");
/// A list argument as a set of dimensions, in the order given. Refuses repeated ones.
std::vector<std::size_t> dims_argument(const Call&, std::size_t rank, std::string_view name = "dim");
/// A list of ints made `n` long: one value is repeated, an empty list gives `fallback`.
Exprs spread(const Call&, const Value&, std::size_t n, Expr fallback = 1);

/// Metadata of another operator's result: for shape functions of what eager composes.
Value apply(Env&, std::string_view target, Values args);

// Questions about sizes. Static knowledge first; then backed symbols are decided with a guard, unbacked ones answer
// "no".

/// Whether a size is 1.
bool is_one(Env&, Expr size);
/// Whether a size is 0, by what is statically known: a symbolic size is taken for non-zero.
bool is_zero(Env&, Expr size);
/// Whether two sizes are equal.
bool equal(Env&, Expr a, Expr b);
/// Refuses unless two sizes are equal; sizes with unbacked symbols are taken for equal.
void require_equal(const Call&, Expr a, Expr b, std::string_view what);
bool all_equal(Env&, std::span<const Expr> a, std::span<const Expr> b);
/// Whether a value is negative.
bool is_negative(Env&, Expr value);
/// `s0 x 3 x 4`, for messages.
std::string show(std::span<const Expr> sizes);
/// The number of elements, simplified.
Expr numel(Env&, const TensorMeta&);

// Tables.

struct Traits {
  bool random = false, side_effect = false;
};
/// Defines every schema of a table with one shape function. A schema stands on a line of its own, or goes on in lines
/// that begin with a blank; empty lines are skipped.
void define_each(std::string_view schemas, const ShapeFunction&, Traits = {});
/// As `define_each`, and each operator's in-place twin as well: `foo_` writes to `self`, gives it back, and refuses
/// where eager refuses (result of another size or category).
void define_with_twins(std::string_view schemas, const ShapeFunction&, Traits = {});
/// The shape function of an in-place form: the checks of `functional`, the metadata of `self`.
ShapeFunction in_place(ShapeFunction functional);

}  // namespace coil::ops::shapes
