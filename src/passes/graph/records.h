// The graph-to-graph passes as records. compiler/pipelines.h says in which order they run.
#pragma once
#include "fx/graph.h"
#include "passes/graph/fold_constants.h"
#include "passes/graph/known_values.h"
#include "passes/graph/make_where_read.h"
#include "passes/graph/passes.h"
#include "passes/graph/split_complex.h"
#include "passes/graph/symbolic_masks.h"
#include "passes/pass.h"

namespace coil::passes {

struct GraphContext : Context {
  IsLowered is_lowered;
  RunModule run;  ///< compiles and runs a part of the program on this machine
};
using GraphPass = Pass<fx::GraphModule, GraphContext>;

/// The pass of a function that asks about nothing but the graph.
template <void (*F)(fx::GraphModule&)>
void on_graph(fx::GraphModule& module, const GraphContext&) {
  F(module);
}

inline bool folds_constants(const target::Target&, const Settings& settings) { return settings.fold_constants; }

inline constexpr GraphPass kCheckCalls{
    "check-calls", "Calls that eager would refuse for the kinds, types or sizes of their arguments are refused.",
    on_graph<check_calls>};
inline constexpr GraphPass kOutlineVmap{
    "outline-vmap", "Regions that torch.vmap opened become maps over the batched dimension.", on_graph<outline_vmap>};
inline constexpr GraphPass kRemoveNoops{
    "remove-noops", "Wrappers of regions, casts to the same type and operators that do nothing in inference go.",
    on_graph<remove_noops>};
inline constexpr GraphPass kCorrectRecords{"correct-records",
                                           "Types, sizes and strides that torch records otherwise than eager has them "
                                           "are computed anew, with all that follows.",
                                           on_graph<correct_records>};
inline constexpr GraphPass kExpandLoops{
    "expand-loops", "while_loop_stack_output and associative_scan become the loops that lowering has.",
    on_graph<expand_loops>};
inline constexpr GraphPass kExpandLists{"expand-lists",
                                        "Operators on lists of tensors (_foreach_*) become one call for each item.",
                                        on_graph<expand_lists>};
inline constexpr GraphPass kExpandAutoFunctionalized{
    "expand-auto-functionalized", "auto_functionalized_v2 becomes the operator itself on copies of what it writes to.",
    on_graph<expand_auto_functionalized>};
inline constexpr GraphPass kFunctionalize{
    "functionalize",
    "Writes in place and through views become new values, and what inputs and states must hold at the end a copy.",
    on_graph<functionalize>};
inline constexpr GraphPass kSplitComplex{
    "split-complex",
    "Complex tensors become two real ones, their parts; with fallback, where it cannot be, the host's.",
    [](fx::GraphModule& module, const GraphContext& given) {
      if (given.settings.fallback && !splits_complex(module))
        leave_complex_to_host(module);
      else
        split_complex(module, given.target.has(target::Feature::NarrowFloats) ? DType::F32 : DType::F64);
    }};
inline constexpr GraphPass kFoldBatchNorm{
    "fold-batch-norm", "batch_norm with constant statistics goes into the convolution or product before it.",
    on_graph<fold_batch_norm>};
inline constexpr GraphPass kFoldBatchNormOfInputs{
    "fold-batch-norm-of-inputs",
    "The same for weights and statistics that are inputs, where the result is larger than the weights and no kernel "
    "stands behind it anyway.",
    on_graph<fold_batch_norm_of_inputs>, has<target::Feature::FoldedBatchNorm>};
inline constexpr GraphPass kFuseAttention{
    "fuse-attention", "Attention written out as products and a softmax becomes scaled_dot_product_attention.",
    [](fx::GraphModule& module, const GraphContext& given) { fuse_attention(module, given.target); }};
inline constexpr GraphPass kFuseLinear{"fuse-linear",
                                       "A batched product with one matrix, and the bias added after it, becomes addmm.",
                                       on_graph<fuse_linear>};
inline constexpr GraphPass kDecompose{
    "decompose", "Composite operators are rewritten by tables, but for those that some device's library does whole.",
    [](fx::GraphModule& module, const GraphContext& given) { decompose(module, given.target); }};
inline constexpr GraphPass kDecomposeForDevice{
    "decompose-for-device",
    "Composite operators are rewritten by tables, also those that only another device does whole.",
    [](fx::GraphModule& module, const GraphContext& given) { decompose_for_device(module, given.target); }};
inline constexpr GraphPass kContractSums{
    "contract-sums", "Sums over products of values that are repeated against each other become products of matrices.",
    [](fx::GraphModule& module, const GraphContext& given) { contract_sums(module, given.target); }};
inline constexpr GraphPass kEliminateCommonSubexpressions{"eliminate-common-subexpressions",
                                                          "Calls of equal target and arguments become one.",
                                                          on_graph<eliminate_common_subexpressions>};
inline constexpr GraphPass kEliminateDeadCode{"eliminate-dead-code", "Calls that nothing reads go.",
                                              on_graph<eliminate_dead_code>};
inline constexpr GraphPass kPropagate{
    "propagate", "Every dtype, size and stride is computed anew and must agree with what the archive recorded.",
    on_graph<propagate>};
inline constexpr GraphPass kSimplifySymbolicMasks{
    "simplify-symbolic-masks", "Attention masks of free sizes that let all through, or are causal, are said by name.",
    [](fx::GraphModule& module, const GraphContext&) {
      simplify_symbolic_masks(module);
      module.graph.eliminate_dead_code();
    },
    folds_constants};
inline constexpr GraphPass kFoldConstants{
    "fold-constants",
    "What depends on weights alone, or on weights, positions and fills, is computed now, and attention masks of known "
    "values are said by name.",
    [](fx::GraphModule& module, const GraphContext& given) {
      const std::int64_t few_rows = given.settings.batch_invariant ? 0 : given.target.costs.rows_by_made_matrix;
      compute_known_values(module, given.is_lowered, few_rows, given.run);
    },
    folds_constants};
inline constexpr GraphPass kFindDevices{"find-devices",
                                        "Whether the program lies on one device, or on the CPU and another.",
                                        [](fx::GraphModule& module, const GraphContext& given) {
                                          find_devices(module, given.target.device, given.settings.one_device);
                                        }};
inline constexpr GraphPass kMakeWhereRead{
    "make-where-read",
    "What is made on the CPU of no input but small constants, to be read on the other device alone, is made there.",
    [](fx::GraphModule& module, const GraphContext& given) {
      make_where_read(module, given.target, given.is_lowered);
    }};
inline constexpr GraphPass kPlaceOnDevices{
    "place-on-devices",
    "A program on one device is moved to the one that is compiled for; of one on the CPU and another, the other's "
    "part.",
    [](fx::GraphModule& module, const GraphContext& given) { place_on_devices(module, given.target.device); }};
inline constexpr GraphPass kLoopRecurrences{
    "loop-recurrences", "Layers of recurrent networks become scans over their steps, where no library has them.",
    on_graph<loop_recurrences>, lacks<target::Feature::Recurrences>};
inline constexpr GraphPass kVerifyGraph{
    "verify", "Nodes stand before their users, and know their operators and users; else the compile fails.",
    [](fx::GraphModule& module, const GraphContext&) { module.graph.lint(); }, verifies};

}  // namespace coil::passes
