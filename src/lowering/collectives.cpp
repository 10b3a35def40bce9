// Functional collectives: calls that start an exchange, and waits for what they give.
//
// A sum over the ranks whose operand is small enough (LowerOptions) becomes one call that reads the operands of all
// ranks in their memory. Its operand is a communication buffer, made there by whatever computes it where that can be;
// nothing waits for its result, which is there when the call returns.
//
// What a collective changes in place is a copy of its operand, which fuses with what makes the operand, or which the
// wrapper takes out again where the operand is not needed any more (passes/wrapper/coalesce_copies.h). Results that
// something else than a wait reads are waited for at once.
#include "library_ops/collectives.h"

#include <algorithm>

#include "ir/comm_buffers.h"
#include "library_ops/table.h"
#include "lowering/common.h"

namespace coil::lowering {
namespace {

namespace names = library_ops::collectives;
using library_ops::Attributes;

bool is_wait(const fx::Node& n) { return n.is_call("_c10d_functional.wait_tensor.default"); }

/// Whether all that happens to a result, or to each of a list of them, is that it is waited for.
bool is_only_waited_for(const fx::Node& n) {
  return !n.users().empty() && std::ranges::all_of(n.users(), [](const fx::Node* user) {
    return is_wait(*user) || (user->is_call("_operator.getitem") && is_only_waited_for(*user));
  });
}

/// The collective whose result a buffer holds and that nothing has waited for yet; null where there is none.
const ir::Extern* pending(const Context& ctx, ir::BufferId buffer) {
  const auto& all = ctx.graph.operations();
  for (std::size_t k = all.size(); k-- > 0;) {
    if (std::ranges::find(all[k].outs, buffer) == all[k].outs.end()) continue;
    const auto* call = std::get_if<ir::Extern>(&all[k].node);
    return call && library_ops::has(call->op, library_ops::Trait::Collective) ? call : nullptr;
  }
  return nullptr;
}

void wait_for(Context& ctx, ir::BufferId buffer) {
  const ir::Extern* started = pending(ctx, buffer);
  if (!started) return;
  const BufferView result = started->outputs[0], operand = started->inputs[0];
  std::vector<BufferView> inputs{result};
  if (operand.buffer != buffer) inputs.push_back(operand);
  add_library_call(ctx, std::string(names::kWait), {}, std::move(inputs), {result});
}

/// Values in memory of their own, row by row.
BufferView fresh_copy(Context& ctx, const TensorBox& x) {
  const TensorBox copy = pointwise(ctx, x.dtype(), x.sizes, element(ctx, x, x.sizes));
  BufferView view = library_operand(copy);
  ctx.graph.buffer(view.buffer).layout.fixed = true;
  return view;
}

bool is_row_major(Context& ctx, const BufferView& view) {
  Expr stride = 1;
  for (std::size_t d = view.sizes.size(); d-- > 0;) {
    if (!view.sizes[d].is_constant(1) && !ctx.graph.env().statically_known_equal(view.strides[d], stride)) return false;
    stride = stride * view.sizes[d];
  }
  return true;
}

/// Values row by row, where they lie if that is how they lie.
BufferView rows(Context& ctx, const TensorBox& x) {
  x.realize();
  const auto view = x.strided();
  if (!view || view->sizes.size() != x.rank() || !is_row_major(ctx, *view)) return fresh_copy(ctx, x);
  ctx.graph.buffer(view->buffer).layout.fixed = true;
  return *view;
}

BufferView fresh_result(Context& ctx, const sym::TensorMeta& meta) {
  BufferView view = library_result(ctx, meta.dtype, meta.sizes).second;
  ctx.graph.buffer(view.buffer).layout.fixed = true;
  return view;
}

/// The call, and a wait where its result is used without one.
TensorBox start(Context& ctx, std::string_view op, Attributes attributes, std::vector<BufferView> inputs,
                const BufferView& output) {
  add_library_call(ctx, std::string(op), std::move(attributes), std::move(inputs), {output});
  if (!is_only_waited_for(*ctx.node)) wait_for(ctx, output.buffer);
  return ir::whole(ctx.graph, output.buffer);
}

std::string group_of(const ops::Value& v) { return v.as_string(); }

std::string reduction_of(Context& ctx, const ops::Value& v, DType dtype, Device device) {
  static constexpr std::string_view kKnown[] = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
  std::string name = v.as_string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "prod") name = "product";
  if (std::ranges::find(kKnown, name) == std::end(kKnown))
    refuse(ctx, fmt::format("combines values by '{}'; known are {}", name, fmt::join(kKnown, ", ")));
  if (name == "avg" && !is_fractional(dtype))
    refuse(ctx, fmt::format("takes the average of {}; averages are of floating or complex numbers", torch_name(dtype)));
  if ((name == "min" || name == "max") && is_complex(dtype)) refuse(ctx, "complex numbers have no order");
  if (name.starts_with('b') && is_fractional(dtype))
    refuse(ctx, fmt::format("combines bits of {}; bits are those of integers and bools", torch_name(dtype)));
  if (size_of(dtype) == 1 && is_floating(dtype)) refuse(ctx, fmt::format("does not combine {}", torch_name(dtype)));
  if (!device.is_host() && !names::combines_off_host(name, dtype))
    refuse(ctx, fmt::format("combines {} by '{}' on {}, where groups cannot; move them to the CPU", torch_name(dtype),
                            name, to_string(device)));
  return name;
}

/// Lowers a collective over one tensor or a list of them, each on its own.
template <class One>
Lowered over(Context& ctx, const ops::Value& operand, One one) {
  const ops::Value& meta = ctx.node->meta.value;
  if (meta.is<sym::TensorMeta>()) {
    return one(ctx.tensor(operand), ctx.node->tensor());
  }
  std::vector<TensorBox> results;
  for (const TensorBox& x : ctx.tensors(operand)) {
    results.push_back(one(x, meta.as_list()[results.size()].as_tensor()));
  }
  return results;
}

/// How often ranks meet to add up what lies in memory that they share.
enum class Shots : std::uint8_t { None, One, Two };

/// Up to here one shot is fastest for any number of ranks that kernels add over.
constexpr std::int64_t kAlwaysOneShot = 256 << 10;

/// None where the group's own collective is to do it.
Shots shots_of(Context& ctx, const TensorBox& x, std::string_view reduce) {
  if (reduce != "sum") return Shots::None;
  const auto bytes = ir::comm_bytes(ctx.graph.env(), x.dtype(), x.sizes, sym::contiguous_strides(x.sizes));
  const std::int64_t one = ctx.options.one_shot_bytes < 0 ? kAlwaysOneShot : ctx.options.one_shot_bytes,
                     two = ctx.options.two_shot_bytes;
  if (!bytes || *bytes == 0 || *bytes > std::max(one, two)) return Shots::None;
  return *bytes <= one ? Shots::One : Shots::Two;
}

/// Whether a library's product makes the value, and nothing else is between.
bool is_made_by_product(Context& ctx, const TensorBox& x) {
  if (!x.storage->realized()) return false;
  return std::ranges::any_of(ctx.graph.operations(), [&](const ir::Operation& op) {
    const auto* call = std::get_if<ir::Extern>(&op.node);
    return call && library_ops::has(call->op, library_ops::Trait::Product) && op.outs[0] == *x.storage->buffer;
  });
}

/// The value's own memory as a communication buffer; nothing where it cannot be one, or does not lie row by row.
std::optional<BufferView> own_comm_buffer(Context& ctx, const TensorBox& x, const ir::CommBufferLayout& layout) {
  if (ir::comm_buffer_refusal(x, layout)) return std::nullopt;
  ir::StorageBox& storage = *x.storage;
  if (!storage.realized() && x.sizes == storage.sizes && x.map == ctx.graph.ivars(x.rank()))
    storage.strides = sym::contiguous_strides(x.sizes);
  ir::Layout& of_buffer = ctx.graph.buffer(x.realize()).layout;
  const bool was_fixed = of_buffer.fixed;
  const auto view = x.strided();
  of_buffer.fixed = was_fixed;
  if (!view || view->sizes.size() != x.rank() || !is_row_major(ctx, *view)) return std::nullopt;
  ir::realize_as_comm_buffer(x, layout);
  return view;
}

BufferView comm_copy(Context& ctx, const TensorBox& x, const ir::CommBufferLayout& layout) {
  const TensorBox copy = pointwise(ctx, x.dtype(), x.sizes, element(ctx, x, x.sizes));
  ir::realize_as_comm_buffer(copy, layout);
  return library_operand(copy);
}

TensorBox sum_in_shared_memory(Context& ctx, Shots shots, const TensorBox& x, const std::string& group,
                               const sym::TensorMeta& meta) {
  const ir::CommBufferLayout layout{ir::CommKind::Symmetric, group};
  std::optional<BufferView> operand;
  if (shots == Shots::One) operand = own_comm_buffer(ctx, x, layout);
  if (!operand) operand = comm_copy(ctx, x, layout);  // of which the other one makes something else
  const BufferView result = fresh_result(ctx, meta);
  std::vector<BufferView> results{result};
  if (shots == Shots::Two) results.push_back(*operand);
  Attributes attributes{{"group", group}};
  if (shots == Shots::Two && ctx.options.one_shot_bytes < 0 && !x.device().is_host())
    attributes["by_ranks"] = std::int64_t{1};
  add_library_call(ctx, std::string(shots == Shots::One ? names::kOneShot : names::kTwoShot), std::move(attributes),
                   {*operand}, std::move(results));
  return ir::whole(ctx.graph, result.buffer);
}

Lowered all_reduce(Context& ctx, const ops::Values& args) {
  return over(ctx, args[0], [&](const TensorBox& x, const sym::TensorMeta& meta) {
    const std::string reduce = reduction_of(ctx, args[1], x.dtype(), x.device());
    Shots shots = shots_of(ctx, x, reduce);
    if (shots == Shots::Two && ctx.options.chunks_sums && is_made_by_product(ctx, x)) shots = Shots::None;
    if (shots != Shots::None) return sum_in_shared_memory(ctx, shots, x, group_of(args[2]), meta);
    const BufferView copy = fresh_copy(ctx, x);
    return start(ctx, names::kAllReduce, {{"group", group_of(args[2])}, {"reduce", reduce}}, {copy}, copy);
  });
}

Lowered broadcast(Context& ctx, const ops::Values& args) {
  return over(ctx, args[0], [&](const TensorBox& x, const sym::TensorMeta&) {
    const BufferView copy = fresh_copy(ctx, x);
    return start(ctx, names::kBroadcast, {{"group", group_of(args[2])}, {"source", constant(ctx, args[1])}}, {copy},
                 copy);
  });
}

Lowered all_gather(Context& ctx, const ops::Values& args) {
  return over(ctx, args[0], [&](const TensorBox& x, const sym::TensorMeta& result) {
    const BufferView from = rows(ctx, x);
    return start(ctx, names::kAllGather, {{"group", group_of(args[2])}, {"ranks", constant(ctx, args[1])}}, {from},
                 fresh_result(ctx, result));
  });
}

Lowered reduce_scatter(Context& ctx, const ops::Values& args) {
  return over(ctx, args[0], [&](const TensorBox& x, const sym::TensorMeta& result) {
    const std::int64_t ranks = constant(ctx, args[2]);
    ctx.require(sym::eq(sym::mod(x.sizes[0], ranks), 0),
                fmt::format("{} gives {} ranks the same number of rows", ctx.node->target, ranks));
    const BufferView from = rows(ctx, x);
    return start(
        ctx, names::kReduceScatter,
        {{"group", group_of(args[3])}, {"ranks", ranks}, {"reduce", reduction_of(ctx, args[1], x.dtype(), x.device())}},
        {from}, fresh_result(ctx, result));
  });
}

/// Split sizes that are not known before: both lists in memory.
BufferView told_splits(Context& ctx, const Exprs& to, const Exprs& from) {
  const auto ranks = static_cast<std::int64_t>(to.size());
  const BufferView told = library_result(ctx, DType::I64, {2, ranks}).second;
  ctx.graph.buffer(told.buffer).layout.fixed = true;
  for (std::int64_t list = 0; list < 2; ++list)
    for (std::int64_t r = 0; r < ranks; ++r)
      store_part(ctx, told.buffer, {1}, {list, r},
                 index_value(ctx, (list == 0 ? to : from)[static_cast<std::size_t>(r)]));
  return told;
}

Lowered all_to_all(Context& ctx, const ops::Values& args) {
  const Exprs from = ctx.integers(args[1]), to = ctx.integers(args[2]);
  std::vector<BufferView> inputs{rows(ctx, ctx.tensor(args[0]))};
  Attributes attributes{{"group", group_of(args[3])}};
  const auto is_known = [](const Exprs& list) {
    return std::ranges::all_of(list, [](Expr e) { return e.is_constant(); });
  };
  if (is_known(from) && is_known(to)) {
    const auto numbers = [](const Exprs& list) {
      std::vector<std::int64_t> out;
      for (Expr e : list) out.push_back(*e.constant());
      return out;
    };
    if (!to.empty()) attributes["input_splits"] = numbers(to);
    if (!from.empty()) attributes["output_splits"] = numbers(from);
  } else {
    attributes["told"] = std::int64_t{1};
    inputs.push_back(told_splits(ctx, to, from));
  }
  return start(ctx, names::kAllToAll, std::move(attributes), std::move(inputs), fresh_result(ctx, ctx.result()));
}

/// What is waited for is a result of one element, of which the program has a view of none.
Lowered send(Context& ctx, const ops::Values& args) {
  if (!is_only_waited_for(*ctx.node))
    refuse(ctx, "sends, and nothing waits for it; call _c10d_functional.wait_tensor on its result");
  const TensorBox x = ctx.tensor(args[0]);
  const BufferView token = library_result(ctx, x.dtype(), {1}).second;
  ctx.graph.buffer(token.buffer).layout.fixed = true;
  TensorBox result =
      start(ctx, names::kSend,
            {{"group", group_of(args[3])}, {"peer", constant(ctx, args[1])}, {"tag", constant(ctx, args[2])}},
            {rows(ctx, x)}, token);
  result.sizes = {0};
  return result;
}

Lowered receive(Context& ctx, const ops::Values& args) {
  const BufferView copy = fresh_copy(ctx, ctx.tensor(args[0]));
  return start(ctx, names::kReceive,
               {{"group", group_of(args[3])}, {"peer", constant(ctx, args[1])}, {"tag", constant(ctx, args[2])}},
               {copy}, copy);
}

Lowered wait_tensor(Context& ctx, const ops::Values& args) {
  const TensorBox x = ctx.tensor(args[0]);
  if (x.storage->realized()) wait_for(ctx, *x.storage->buffer);
  return x;
}

}  // namespace

void add_collectives(Table& t) {
  const std::string space = "_c10d_functional.", autograd = "_c10d_functional_autograd.";
  t[space + "all_reduce.default"] = t[space + "all_reduce_coalesced.default"] = all_reduce;
  t[space + "broadcast.default"] = broadcast;
  t[space + "all_gather_into_tensor.default"] = t[space + "all_gather_into_tensor_coalesced.default"] =
      t[autograd + "all_gather_into_tensor.default"] = all_gather;
  t[space + "reduce_scatter_tensor.default"] = t[space + "reduce_scatter_tensor_coalesced.default"] =
      t[autograd + "reduce_scatter_tensor.default"] = reduce_scatter;
  t[space + "all_to_all_single.default"] = t[autograd + "all_to_all_single.default"] = all_to_all;
  t[space + "isend.default"] = send;
  t[space + "irecv.default"] = receive;
  t[space + "wait_tensor.default"] = wait_tensor;
}

}  // namespace coil::lowering
