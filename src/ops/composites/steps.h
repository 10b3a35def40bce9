// Operators that eager itself composes of others, each written once: carried out on metadata it is the operator's shape
// function, carried out on a graph its decomposition.
#pragma once
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/registry.h"

namespace coil::ops::composites {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One call being carried out: its arguments, and the operators to carry it out with. Tensors are whatever `call` gives
/// and takes: metadata, or nodes.
class Steps {
 public:
  Steps(sym::ShapeEnv& env, const Operator& op, const Values& args) : env(env), op(op), args_(args) {}
  virtual ~Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  sym::ShapeEnv& env;
  const Operator& op;

  virtual Value call(std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named = {}) = 0;
  /// One of several results.
  virtual Value item(const Value& results, std::int64_t index) = 0;
  virtual const TensorMeta& meta(const Value& tensor) const = 0;
  /// Else it is a number, or a node that makes one.
  virtual bool is_tensor(const Value&) const = 0;
  /// What was recorded of one of several results of the call itself, where there is a record.
  virtual const TensorMeta* recorded(std::size_t /*result*/) const { return nullptr; }
  /// Whether the call is carried out on the host, and not where the values are brought later.
  virtual bool runs_on_host() const = 0;
  /// Where new tensors lie: with the first of the call's.
  virtual Device device() const = 0;
  /// An integer that may be symbolic, or a node that makes one.
  virtual Expr integer(const Value&) const = 0;
  /// Refuses the call in the user's terms.
  [[noreturn]] virtual void refuse(const std::string& why) const = 0;

  // Arguments.

  const Value& operator[](std::string_view name) const { return args_[op.schema.index(name)]; }
  bool takes(std::string_view name) const;  ///< the schema has it
  bool has(std::string_view name) const { return !(*this)[name].is_none(); }
  bool flag(std::string_view name) const { return has(name) && (*this)[name].as_bool(); }
  double real(std::string_view name) const { return (*this)[name].as_double(); }
  std::int64_t number(std::string_view name) const { return constant((*this)[name]); }
  std::int64_t constant(const Value&) const;
  std::vector<std::int64_t> numbers(std::string_view name) const;
  /// A dimension counted from the start.
  std::int64_t wrapped(std::int64_t dim, std::size_t rank) const;

  // Questions.

  std::size_t rank(const Value& x) const { return meta(x).rank(); }
  DType dtype(const Value& x) const { return meta(x).dtype; }
  const Exprs& sizes(const Value& x) const { return meta(x).sizes; }
  /// The size of a dimension, counted from the end when negative.
  Expr size(const Value& x, std::int64_t dim) const {
    return sizes(x)[static_cast<std::size_t>(wrapped(dim, rank(x)))];
  }

  // Small steps.

  Value add(const Value& a, const Value& b) { return call("aten.add.Tensor", {a, b}); }
  Value sub(const Value& a, const Value& b) { return call("aten.sub.Tensor", {a, b}); }
  Value mul(const Value& a, const Value& b) { return call("aten.mul.Tensor", {a, b}); }
  Value div(const Value& a, const Value& b) { return call("aten.div.Tensor", {a, b}); }
  Value unary(std::string_view name, const Value& x) { return call("aten." + std::string(name) + ".default", {x}); }
  Value reshape(const Value& x, const Exprs& sizes) { return call("aten.reshape.default", {x, sizes}); }
  Value permute(const Value& x, const std::vector<std::int64_t>& order) {
    return call("aten.permute.default", {x, list(order)});
  }
  Value unsqueeze(const Value& x, std::int64_t dim) { return call("aten.unsqueeze.default", {x, dim}); }
  Value slice(const Value& x, std::int64_t dim, const Value& start, const Value& end) {
    return call("aten.slice.Tensor", {x, dim, start, end});
  }
  Value cat(Values parts, std::int64_t dim) { return call("aten.cat.default", {std::move(parts), dim}); }
  Value sum(const Value& x, const std::vector<std::int64_t>& dims, bool keepdim = false) {
    return call("aten.sum.dim_IntList", {x, list(dims), keepdim});
  }
  Value to(const Value& x, DType type) {
    return dtype(x) == type ? x : call("aten._to_copy.default", {x}, {{"dtype", type}});
  }
  Value contiguous(const Value& x) {
    return call("aten.clone.default", {x}, {{"memory_format", MemoryFormat::Contiguous}});
  }
  Value full(const Exprs& sizes, const Value& number, DType type) {
    return call("aten.full.default", {sizes, number}, here({{"dtype", type}}));
  }
  /// 0, 1, …, n-1.
  Value iota(Expr n, DType type = DType::I64) {
    return call("aten.arange.start_step", {0, n, 1}, here({{"dtype", type}}));
  }
  Value where(const Value& condition, const Value& yes, const Value& no) {
    return call("aten.where.self", {condition, yes, no});
  }
  /// The mean, the sum, or each, by torch's number of the `reduction` argument (1 mean, 2 sum, any other none).
  Value reduced(const Value& each);

  static Value list(const std::vector<std::int64_t>& numbers) { return Values(numbers.begin(), numbers.end()); }

 private:
  std::vector<std::pair<std::string, Value>> here(std::vector<std::pair<std::string, Value>> named) const {
    if (const Device d = device(); !d.is_host()) named.emplace_back("device", d);
    return named;
  }
  const Values& args_;
};

struct Composite {
  std::string_view schema;
  Value (*carry_out)(Steps&);
  bool has_twin = false;  ///< there is a form in place too: `renorm_`
};

// One for each file of this folder.
std::span<const Composite> matrices();
std::span<const Composite> factors();
std::span<const Composite> spaced();
std::span<const Composite> pieces();
std::span<const Composite> statistics();
std::span<const Composite> distances();
std::span<const Composite> windows();
std::span<const Composite> segments();
std::span<const Composite> quantization();

/// Calls `f` with every composite operator.
template <class F>
void for_each(const F& f) {
  for (auto family : {matrices, factors, spaced, pieces, statistics, distances, windows, segments, quantization})
    for (const Composite& c : family()) f(c);
}

}  // namespace coil::ops::composites
