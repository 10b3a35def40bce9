// Functional collectives of torch.distributed (torch/csrc/distributed/c10d/Functional.cpp): sizes as their meta
// functions give them. They are kept and called as often as the graph says, since other processes wait for them.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

std::int64_t group_size(const Call& call) {
  const std::int64_t size = number(call, "group_size");
  if (size < 1) refuse(call, "a process group of {} ranks", size);
  return size;
}

TensorMeta reduced(const Call& call, const TensorMeta& x) { return dense(call.env, x, x.sizes); }

TensorMeta kept(const Call& call, const TensorMeta& x) { return like_in_format(call.env, x, MemoryFormat::Preserve); }

TensorMeta gathered(const Call& call, const TensorMeta& x) {
  Exprs sizes = x.sizes.empty() ? Exprs{1} : x.sizes;
  sizes[0] = call.env.simplify(sizes[0] * group_size(call));
  return dense(call.env, x, sizes);
}

TensorMeta scattered(const Call& call, const TensorMeta& x) {
  if (x.sizes.empty()) refuse(call, "takes a tensor of at least one dimension");
  const std::int64_t ranks = group_size(call);
  Exprs sizes = x.sizes;
  if (sizes[0].is_constant() && *sizes[0].constant() % ranks != 0)
    refuse(call, "{} rows cannot be shared by {} ranks equally", *sizes[0].constant(), ranks);
  sizes[0] = call.env.simplify(sym::floor_div(sizes[0], ranks));
  return dense(call.env, x, sizes);
}

TensorMeta exchanged(const Call& call, const TensorMeta& x) {
  if (x.sizes.empty()) refuse(call, "takes a tensor of at least one dimension");
  const Exprs to = call["input_split_sizes"].as_ints(), from = call["output_split_sizes"].as_ints();
  if (to.size() != from.size()) refuse(call, "the split sizes are for {} and for {} ranks", to.size(), from.size());
  Expr sent = 0, received = 0;
  for (Expr rows : to) sent += rows;
  for (Expr rows : from) received += rows;
  Exprs sizes = x.sizes;
  if (to.empty()) return dense(call.env, x, sizes);
  require_equal(call, call.env.simplify(sent), sizes[0], "rows of the input and the sum of its split sizes");
  sizes[0] = call.env.simplify(received);
  return dense(call.env, x, sizes);
}

TensorMeta sent(const Call& call, const TensorMeta& x) { return dense(call.env, x, {0}); }

using ShapeOf = TensorMeta (*)(const Call&, const TensorMeta&);

template <ShapeOf Shape>
Value one(const Call& call) {
  return Shape(call, call.tensor(0));
}

template <ShapeOf Shape>
Value each(const Call& call) {
  Values out;
  for (const TensorMeta* x : tensors(call)) out.emplace_back(Shape(call, *x));
  return out;
}

}  // namespace

void register_collectives() {
  constexpr Traits kExchange{.side_effect = true};
  define_each("_c10d_functional::all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor", one<reduced>,
              kExchange);
  define_each("_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)",
              in_place(one<reduced>), kExchange);
  define_each("_c10d_functional::all_reduce_coalesced(Tensor[] inputs, str reduce_op, Any group_name) -> Tensor[]",
              each<kept>, kExchange);
  define_each(
      "_c10d_functional::all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, Any group_name) -> Tensor(a!)[]",
      each<kept>, kExchange);
  define_each("_c10d_functional::broadcast(Tensor input, int src, Any group_name) -> Tensor", one<kept>, kExchange);
  define_each("_c10d_functional::broadcast_(Tensor(a!) input, int src, Any group_name) -> Tensor(a!)",
              in_place(one<kept>), kExchange);
  define_each(R"(
_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor
_c10d_functional_autograd::all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor
)",
              one<gathered>, kExchange);
  define_each(R"(
_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, Any group_name, *, Tensor(a!) out)
    -> Tensor(a!)
)",
              one<gathered>, kExchange);
  define_each(
      "_c10d_functional::all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, Any group_name) -> Tensor[]",
      each<gathered>, kExchange);
  define_each(R"(
_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor
_c10d_functional_autograd::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor
)",
              one<scattered>, kExchange);
  define_each(R"(
_c10d_functional::reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, Any group_name, *,
    Tensor(a!) out) -> Tensor(a!)
)",
              one<scattered>, kExchange);
  define_each(R"(
_c10d_functional::reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, Any group_name)
    -> Tensor[]
)",
              each<scattered>, kExchange);
  define_each(R"(
_c10d_functional::all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes,
    Any group_name) -> Tensor
_c10d_functional_autograd::all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes,
    Any group_name) -> Tensor
)",
              one<exchanged>, kExchange);
  define_each("_c10d_functional::isend(Tensor tensor, int dst, int tag, str group_name) -> Tensor", one<sent>,
              kExchange);
  // Eager also writes to the argument; programs that could see that are refused (frontend/collectives.h).
  define_each("_c10d_functional::irecv(Tensor tensor, int src, int tag, str group_name) -> Tensor", one<kept>,
              kExchange);
  // Nothing uses the result of a wait for a send.
  define_each(
      "_c10d_functional::wait_tensor(Tensor tensor) -> Tensor",
      [](const Call& call) -> Value { return call.tensor(0); }, kExchange);
}

}  // namespace coil::ops::shapes
