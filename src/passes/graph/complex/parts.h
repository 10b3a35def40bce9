// What the rules of split-complex are written in: complex tensors as two real ones, the real and the imaginary part,
// each of the complex tensor's sizes.
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

/// An imaginary part of None is zero.
struct Parts {
  Value re, im;
};

/// Applies `f` to each part that is there.
inline Parts on_both(const Parts& z, const std::function<Value(const Value&)>& f) {
  return {z.re.is_none() ? z.re : f(z.re), z.im.is_none() ? z.im : f(z.im)};
}

/// What a rule makes of a node: a real tensor (or several results, none of them complex), a complex one, or a list of
/// complex ones.
using Made = std::variant<Value, Parts, std::vector<Parts>>;

struct PartsOf : std::unordered_map<const fx::Node*, Parts> {
  DType widest = DType::F64;  ///< float that kernels compute in
};

/// The rewriting of one node that takes or gives complex tensors.
class ComplexRewriter : public Rewriter {
 public:
  ComplexRewriter(fx::GraphModule& module, fx::Node* node, const PartsOf& known,
                  const target::Target& target = target::host())
      : Rewriter(module, node, target), known_(known) {}

  bool is_complex_node(const Value&) const;
  /// The parts of a complex or a real tensor, or of a number.
  Parts parts(const Value& argument) { return parts(argument, part_type()); }
  Parts parts(const Value& argument, DType of_parts);
  /// The element type of the parts: of the result if it is complex or real floating, else of the complex arguments.
  DType part_type() const;

  // Arithmetic on values that may be None, which stands for zero.

  Value plus(const Value& a, const Value& b);
  Value minus(const Value& a, const Value& b);
  Value times(const Value& a, const Value& b);
  Value negated(const Value& a);
  Parts product(const Parts& a, const Parts& b);
  Parts quotient(const Parts& a, const Parts& b);
  Parts conjugate(const Parts& z) { return {z.re, negated(z.im)}; }
  Parts scaled(const Parts& z, const Value& by) { return {times(z.re, by), times(z.im, by)}; }
  Value zeros_like(const Value& x) { return call("aten.zeros_like.default", {x}); }
  Value unary(std::string_view name, const Value& x) { return call("aten." + std::string(name) + ".default", {x}); }
  Parts one() { return {full({}, 1, part_type(), device()), None{}}; }
  Parts polar(const Value& length, const Value& angle) {
    return {mul(length, unary("cos", angle)), mul(length, unary("sin", angle))};
  }
  Value magnitude(const Parts& z);
  Value angle(const Parts& z);

  /// Both parts as tensors of the sizes.
  Parts filled(const Parts&, const Exprs& sizes, DType type);
  /// Both parts of a tensor argument, in its own sizes.
  Parts whole(const Value& argument) { return filled(parts(argument), meta(argument).sizes, part_type()); }
  /// A reduction whose `dtype` is real, which eager carries out on the real parts; nothing where it is not.
  std::optional<Value> of_real_parts();
  /// The parts of a real tensor that has both side by side in a last dimension of two.
  Parts apart(const Value& pairs) {
    return {call("aten.select.int", {pairs, -1, 0}), call("aten.select.int", {pairs, -1, 1})};
  }
  /// Both parts side by side in a last dimension of two, dense, with the dimensions before it in the order of the
  /// layout's strides.
  struct Pairs {
    Value value;
    std::vector<std::int64_t> back;  ///< where each dimension of the layout went
  };
  Pairs interleaved(const Parts&, const TensorMeta& layout);
  DType widest() const { return known_.widest; }

 private:
  const PartsOf& known_;
};

using ComplexRule = Made (*)(ComplexRewriter&);
using ComplexRules = std::unordered_map<std::string_view, ComplexRule>;

// One for each file of this folder.
void add_complex_arithmetic(ComplexRules&);
void add_complex_functions(ComplexRules&);
void add_complex_structure(ComplexRules&);
void add_fourier(ComplexRules&);
void add_complex_matrices(ComplexRules&);
void add_complex_products(ComplexRules&);

}  // namespace coil::passes
