// The passes over the wrapper IR as records. compiler/pipelines.h says in which order they run.
#pragma once
#include "codegen/backend.h"
#include "passes/pass.h"
#include "passes/wrapper/batch_launches.h"
#include "passes/wrapper/checks.h"
#include "passes/wrapper/chunk_collectives.h"
#include "passes/wrapper/coalesce_copies.h"
#include "passes/wrapper/combine_launches.h"
#include "passes/wrapper/lifetimes.h"
#include "passes/wrapper/memory_order.h"
#include "passes/wrapper/overlap_collectives.h"
#include "passes/wrapper/partition.h"
#include "passes/wrapper/plan_comm_buffers.h"
#include "passes/wrapper/remake.h"
#include "passes/wrapper/split_alternatives.h"
#include "passes/wrapper/symbols.h"
#include "passes/wrapper/triton_calls.h"
#include "passes/wrapper/unused_constants.h"
#include "passes/wrapper/write_into_outputs.h"
#include "wrapper/program.h"

namespace coil::passes {

struct WrapperContext : Context {
  const codegen::Backend& backend;
};
using WrapperPass = Pass<wrapper::Program, WrapperContext>;

/// distribution.chunks as a number, where anything is to be cut.
inline std::optional<std::int64_t> chunks_of(const Settings& settings) {
  if (settings.chunks == "auto") return wrapper::kChunksByModel;
  const std::int64_t chunks = std::stoll(settings.chunks);
  return chunks > 1 ? std::optional(chunks) : std::nullopt;
}

/// The pass of a function that asks about nothing but the lines.
template <void (*F)(wrapper::Program&)>
void on_lines(wrapper::Program& lines, const WrapperContext&) {
  F(lines);
}

inline constexpr WrapperPass kCoalesceCopies{
    "coalesce-copies", "The two sides of a copy share memory wherever every reader still sees its value.",
    on_lines<wrapper::coalesce_copies>};
inline constexpr WrapperPass kCheckValues{
    "check-values", "The checks of results that assert_* settings ask for become calls at the end.",
    [](wrapper::Program& lines, const WrapperContext& given) {
      wrapper::add_value_checks(lines, given.settings.checks);
    }};
inline constexpr WrapperPass kDropUnusedConstants{"drop-unused-constants", "Constants that no line uses go.",
                                                  on_lines<wrapper::drop_unused_constants>};
inline constexpr WrapperPass kBatchLaunches{
    "batch-launches", "Launches of one kernel on different memory become one.",
    [](wrapper::Program& lines, const WrapperContext& given) { wrapper::batch_launches(lines, given.backend); },
    has<target::Feature::BatchedLaunches>};
inline constexpr WrapperPass kCombineLaunches{
    "combine-launches", "Small launches that follow one another become one, of several kernels.",
    [](wrapper::Program& lines, const WrapperContext& given) { wrapper::combine_launches(lines, given.backend); },
    [](const target::Target& target, const Settings& settings) {
      return target.has(target::Feature::BatchedLaunches) && settings.cuda_combine_launches;
    }};
inline constexpr WrapperPass kOrderForMemory{
    "order-for-memory", "Calls run in the order in which temporaries need the least memory.",
    on_lines<wrapper::order_for_memory>,
    [](const target::Target&, const Settings& settings) { return settings.memory_order; }};
inline constexpr WrapperPass kRemakeForMemory{
    "remake-for-memory", "Masks, positions and the like are made again for late readers where that lowers the peak.",
    on_lines<wrapper::remake_for_memory>,
    [](const target::Target&, const Settings& settings) { return settings.memory_order; }};
inline constexpr WrapperPass kChunkCollectives{
    "chunk-collectives",
    "Products and exchanges of what they make or take are cut into chunks of rows that go beside one another.",
    [](wrapper::Program& lines, const WrapperContext& given) {
      wrapper::chunk_collectives(lines, given.target.costs, *chunks_of(given.settings));
    },
    [](const target::Target& target, const Settings& settings) {
      const auto chunks = chunks_of(settings);
      return chunks && (*chunks != wrapper::kChunksByModel || target.costs.link_bytes_per_second > 0);
    }};
inline constexpr WrapperPass kOverlapCollectives{
    "overlap-collectives",
    "Exchanges with other processes start early, several at once, and are waited for late, where that saves time.",
    [](wrapper::Program& lines, const WrapperContext& given) {
      const Settings& settings = given.settings;
      wrapper::overlap_collectives(lines, given.target.costs,
                                   {.bucket_bytes = settings.bucket_bytes,
                                    .extra_bytes = settings.memory_limit > 0 ? 0 : settings.overlap_bytes});
    },
    [](const target::Target& target, const Settings& settings) {
      return settings.overlap && target.costs.link_bytes_per_second > 0;
    }};
inline bool partitions(const target::Target& target, const Settings& settings) {
  return settings.partition && target.has(target::Feature::RecordedGraphs);
}
inline constexpr WrapperPass kOrderForParts{
    "order-for-parts",
    "Calls move over what no graph of the device holds, so that few parts are left, where memory allows.",
    [](wrapper::Program& lines, const WrapperContext& given) { wrapper::order_for_parts(lines, given.target); },
    partitions};
inline constexpr WrapperPass kPartition{
    "partition", "The program is cut into parts that a graph of the device holds, with what crosses their borders.",
    [](wrapper::Program& lines, const WrapperContext& given) { wrapper::partition(lines, given.target); }, partitions};
inline constexpr WrapperPass kSplitAlternatives{
    "split-alternatives", "A call of several kernels, each for some of the sizes, becomes a call of each.",
    on_lines<wrapper::split_alternatives>};
inline constexpr WrapperPass kWriteIntoOutputs{
    "write-into-outputs",
    "What a result may be written over is made in the result's memory, and products "
    "are added to residuals where those lie.",
    [](wrapper::Program& lines, const WrapperContext& given) { wrapper::write_into_outputs(lines, given.target); }};
inline constexpr WrapperPass kPlanLifetimes{
    "plan-lifetimes", "Each buffer is allocated before its first use and freed, or handed on, after its last.",
    on_lines<wrapper::plan_lifetimes>};
inline constexpr WrapperPass kPlanCommBuffers{
    "plan-comm-buffers", "Buffers that other ranks reach get their places in the memory that ranks share.",
    on_lines<wrapper::plan_comm_buffers>};
inline constexpr WrapperPass kDefineSymbols{
    "define-symbols", "Sizes get their values from the inputs, and what was assumed of them is checked.",
    on_lines<wrapper::define_symbols>};
inline constexpr WrapperPass kCheckInputs{
    "check-inputs", "Conditions on the inputs' sizes and strides come and go as assert_* settings ask.",
    [](wrapper::Program& lines, const WrapperContext& given) {
      wrapper::add_input_checks(lines, given.settings.checks);
    }};
inline constexpr WrapperPass kCallTritonKernels{
    "call-triton-kernels", "Kernels whose text is Triton are called as kernels that users wrote in it.",
    on_lines<wrapper::call_triton_kernels>,
    [](const target::Target&, const Settings& settings) { return settings.cuda_kernels != "cuda"; }};
inline constexpr WrapperPass kVerifyLines{
    "verify", "What a line uses is defined and allocated, and what is allocated is freed; else the compile fails.",
    [](wrapper::Program& lines, const WrapperContext&) { wrapper::verify(lines); }, verifies};

}  // namespace coil::passes
