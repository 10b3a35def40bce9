// Graph-to-graph passes as functions. Each has a file of its own, and a record in records.h.
#pragma once
#include <string_view>

#include "fx/graph.h"
#include "target/target.h"

namespace coil::passes {

/// Refuses calls that eager would refuse for the kinds, types or sizes of their arguments (fx::check_call).
void check_calls(fx::GraphModule&);
/// Inlines `wrap_with_set_grad_enabled` and similar wrappers, with the casts of `wrap_with_autocast` written out
/// (autocast.h), drops `_assert_tensor_metadata`, `detach`, `lift_fresh_copy`, dropout in inference, `to` that changes
/// nothing.
void remove_noops(fx::GraphModule&);
/// Regions that `torch.vmap` opened, as they stand in exported graphs (associative_scan's among them), as maps over the
/// batched dimension.
void outline_vmap(fx::GraphModule&);
/// Loops in forms that only training and GPUs are asked for (`while_loop_stack_output`, `associative_scan`), as those
/// that lowering has.
void expand_loops(fx::GraphModule&);
/// Metadata that a version of torch records wrongly, and all that follows from it, as the operators' shape functions
/// have it.
void correct_records(fx::GraphModule&);
/// Operators on lists of tensors (`_foreach_*`) as one call for each item, which fuse like any others.
void expand_lists(fx::GraphModule&);
/// `auto_functionalized_v2`, by which torch's own functionalization wraps operators from outside that write to their
/// arguments, as the operator itself on copies of what it writes to.
void expand_auto_functionalized(fx::GraphModule&);
/// Turns in-place operators and writes through chains of views into new values, and records what inputs and attributes
/// must receive at the end as `mutations`.
void functionalize(fx::GraphModule&);
/// Rewrites composite operators by the tables in passes/graph/decompositions/, keeping those that a library or a
/// template does better whole: linear, addmm, mm, bmm, convolution, scaled_dot_product_attention, and all that lowering
/// has whole. What some devices' libraries do whole, by the types and sizes of operands, is left for
/// decompose_for_device.
void decompose(fx::GraphModule&, const target::Target& = target::host());
/// The same for a program whose tensors are on the device that it is compiled for, leaving nothing.
void decompose_for_device(fx::GraphModule&, const target::Target& = target::host());
/// Whether the tables have this operator.
bool decomposes(std::string_view target);
/// Computes metadata of every call by its shape function; where a node came with metadata, checks that they agree
/// (throws Error naming node and line when they do not).
void propagate(fx::GraphModule&);
/// Calls of equal target and arguments become one, except random, mutating and asserting ones, and except where both
/// results are returned (eager returns two tensors). Does nothing on a graph that still has in-place operators.
void eliminate_common_subexpressions(fx::GraphModule&);
void eliminate_dead_code(fx::GraphModule&);
/// batch_norm in inference, with constant statistics, into the convolution (or linear) before it.
void fold_batch_norm(fx::GraphModule&);
/// The same for weights and statistics that are inputs, where the convolution makes more elements than it has weights
/// and no kernel stands behind it that may as well do the batch norm: for GPUs.
void fold_batch_norm_of_inputs(fx::GraphModule&);
/// Recognises attention written out as matmul, scale, mask, softmax, matmul (what run_decompositions leaves) as
/// scaled_dot_product_attention, where the target has a kernel for it.
void fuse_attention(fx::GraphModule&, const target::Target&);

/// A batched product with one matrix expanded over the batch, and the bias added after it (what run_decompositions
/// leaves of linear in half precision), as addmm.
void fuse_linear(fx::GraphModule&);

/// Sums over products of values that are repeated against each other as products of matrices, where these are large
/// enough to be faster.
void contract_sums(fx::GraphModule&, const target::Target&);

/// Layers of recurrent networks as scans over their steps: for devices whose libraries have no such layers.
void loop_recurrences(fx::GraphModule&);

/// Says of a program, as it came, whether it lies on several devices (GraphModule::on_several_devices): tensors of its
/// own lie on the CPU and on another device, `to` is not the CPU, and not all is to be on `one_device`. Throws Error
/// where tensors lie on the CPU and on more than one other device.
void find_devices(fx::GraphModule&, Device to, bool one_device = false);

/// Puts a program on the device that it is compiled for, `device` arguments included (not those that say `meta`): all
/// of it, so that an archive exported on the CPU compiles for another device, and the other way round; of one on
/// several devices the part that does not lie on the CPU.
void place_on_devices(fx::GraphModule&, Device to);

}  // namespace coil::passes
