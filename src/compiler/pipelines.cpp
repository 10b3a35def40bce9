#include "compiler/pipelines.h"

#include <fmt/ranges.h>

#include "fx/text.h"
#include "support/error.h"
#include "wrapper/text.h"

namespace coil {
namespace {

using target::Feature;
using target::Target;

bool off_host(const Target& target, const Settings&) { return !target.device.is_host(); }
/// Attention's gradient is the library's where there is one, unless its order of additions is not to be had.
bool leaves_to_library(const Target& target, const Settings& settings) {
  return target.has(Feature::Attention) && !(target.has(Feature::UnorderedGradients) && settings.deterministic);
}
bool with_epilogues(const Target& target, const Settings& settings) {
  return settings.fuse_epilogues && target.has(Feature::PostOps);
}
bool leaves_nothing(const Target& target, const Settings& settings) { return !leaves_to_library(target, settings); }

constexpr GraphStep kGraph[] = {
    {&passes::kFindDevices},
    {&passes::kCheckCalls},
    {&passes::kOutlineVmap},
    {&passes::kRemoveNoops},
    {&passes::kCorrectRecords},
    {&passes::kExpandLoops},
    {&passes::kExpandLists},
    {&passes::kExpandAutoFunctionalized},
    {&passes::kFunctionalize},
    {&passes::kEliminateDeadCode},
    {&passes::kSplitComplex},
    {&passes::kFoldBatchNorm},
    {&passes::kFoldBatchNormOfInputs},
    {&passes::kFuseAttention},
    {&passes::kFuseLinear},
    {&passes::kDecompose, leaves_to_library},
    {&passes::kDecomposeForDevice, leaves_nothing},
    {&passes::kEliminateCommonSubexpressions},
    {&passes::kEliminateDeadCode},
    {&passes::kPropagate},
    {&passes::kContractSums},
    {&passes::kSimplifySymbolicMasks},
    {&passes::kFoldConstants},
    {&passes::kMakeWhereRead},
    {&passes::kPlaceOnDevices},
    {&passes::kLoopRecurrences},
    {&passes::kDecomposeForDevice, off_host},
    {&passes::kEliminateCommonSubexpressions, off_host},
    {&passes::kEliminateDeadCode, off_host},
    {&passes::kVerifyGraph},
};

constexpr GraphStep kConstants[] = {
    {&passes::kPlaceOnDevices},
    {&passes::kDecomposeForDevice},
};

constexpr LoopStep kLoop[] = {
    {&passes::kCopyBetweenDevices},
    {&passes::kChooseWinograd},
    {&passes::kChooseStrides},
    {&passes::kTakeOwnProducts},
    {&passes::kFusePostOps, with_epilogues},
    {&passes::kFusePreOps, with_epilogues},
    {&passes::kEliminateDeadOperations},
    {&passes::kComputeInParts},
    {&passes::kChooseLayouts},
    {&passes::kTurnOperands},
    {&passes::kSumNarrowColumns},
    {&passes::kSplitLongColumns},
    {&passes::kSplitPartWrites},
    {&passes::kNestConcatenations},
    {&passes::kStorePartsEarly},
    {&passes::kAddNanGuards},
    {&passes::kExpandWinograd},
    {&passes::kWriteResultsInParts},
    {&passes::kAllowTf32},
    {&passes::kKeepRowsApart},
    {&passes::kPairRecurrences},
    {&passes::kPackWeights},
    {&passes::kFuseSums},
    {&passes::kDelayLoops},
    {&passes::kVerifyLoops},
};

constexpr WrapperStep kWrapper[] = {
    {&passes::kCoalesceCopies},    {&passes::kCheckValues},      {&passes::kDropUnusedConstants},
    {&passes::kBatchLaunches},     {&passes::kCombineLaunches},  {&passes::kOrderForMemory},
    {&passes::kRemakeForMemory},   {&passes::kChunkCollectives}, {&passes::kOverlapCollectives},
    {&passes::kOrderForParts},     {&passes::kWriteIntoOutputs}, {&passes::kPlanLifetimes},
    {&passes::kPlanCommBuffers},   {&passes::kDefineSymbols},    {&passes::kCheckInputs},
    {&passes::kCallTritonKernels}, {&passes::kPartition},        {&passes::kSplitAlternatives},
    {&passes::kVerifyLines},
};

template <class Step>
const auto& find(std::span<const Step> steps, std::string_view name, std::vector<std::string_view> known = {}) {
  for (const Step& step : steps) {
    if (step.pass->name == name) return *step.pass;
    if (std::find(known.begin(), known.end(), step.pass->name) == known.end()) known.push_back(step.pass->name);
  }
  fail("there is no pass {}; there are {}", name, fmt::join(known, ", "));
}

}  // namespace

std::span<const GraphStep> graph_pipeline() { return kGraph; }
std::span<const GraphStep> constants_pipeline() { return kConstants; }
std::span<const LoopStep> loop_pipeline() { return kLoop; }
std::span<const WrapperStep> wrapper_pipeline() { return kWrapper; }

const passes::GraphPass& find_pass(std::span<const GraphStep> steps, std::string_view name) {
  return find(steps, name);
}
const passes::LoopPass& find_pass(std::span<const LoopStep> steps, std::string_view name,
                                  std::vector<std::string_view> also) {
  return find(steps, name, std::move(also));
}
const passes::WrapperPass& find_pass(std::span<const WrapperStep> steps, std::string_view name) {
  return find(steps, name);
}

std::string print(const fx::GraphModule& module) { return fx::to_string(module, {.locations = true}); }
std::string print(const ir::Graph& graph) { return ir::to_string(graph); }
std::string print(const wrapper::Program& lines) { return wrapper::to_string(lines); }

void verify_between(const fx::GraphModule& module) { module.graph.lint(); }
void verify_between(const ir::Graph& graph) { ir::verify(graph); }
void verify_between(const wrapper::Program& lines) { wrapper::verify_calls(lines); }

std::set<std::string, std::less<>> pass_names() {
  std::set<std::string, std::less<>> names;
  for (const GraphStep& s : kGraph) names.emplace(s.pass->name);
  for (const LoopStep& s : kLoop) names.emplace(s.pass->name);
  for (const WrapperStep& s : kWrapper) names.emplace(s.pass->name);
  return names;
}

}  // namespace coil
