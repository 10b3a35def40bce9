#include "runtime/executor/exchanges.h"

#include <algorithm>

#include "library_ops/collectives.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

namespace names = library_ops::collectives;
using library_ops::Trait;

class ExchangeReader {
 public:
  explicit ExchangeReader(bool host) : host_(host) {}
  Exchanges run(const Plan& plan) {
    for (const Step& step : plan.steps)
      if (const auto* call = std::get_if<ExternCall>(&step)) read(*call);
    for (const CommPool& pool : plan.comm_pools)
      found_.text += fmt::format("{} has {} bytes: {}\n", number(pool.group), pool.bytes, pool.plan);
    return std::move(found_);
  }

 private:
  void read(const ExternCall& call) {
    if (!library_ops::has(call.op, Trait::Collective) && !library_ops::has(call.op, Trait::Exchange)) return;
    // What starts together follows from what is between exchanges, which ranks may have otherwise. On the host they
    // tell each other as they go (groups/host_group.cpp), so that it is as good as several, one after the other.
    const bool is_several = call.outputs.size() > 1 && host_;
    std::string text = fmt::format("{} {} {}", number(library_ops::read(call.attributes, names::kGroup)), call.op,
                                   is_several ? 1 : call.inputs.size());
    // Ranks send one another as many rows as they like.
    for (const auto& [name, value] : call.attributes)
      if (name != names::kGroup.name && name != names::kInputSplits.name && name != names::kOutputSplits.name &&
          name != names::kTold.name)
        text += fmt::format(" {}={}", name, library_ops::to_string(value));
    for (std::size_t k = 0; k < (is_several ? call.inputs.size() : 1); ++k)
      found_.text += fmt::format("{} {}\n", text, call.inputs.empty() ? "" : torch_name(call.inputs[0].dtype));
  }

  std::size_t number(const std::string& group) {
    const auto found = std::ranges::find(found_.groups, group);
    const auto at = static_cast<std::size_t>(found - found_.groups.begin());
    if (found == found_.groups.end()) found_.groups.push_back(group);
    return at;
  }

  bool host_;
  Exchanges found_;
};

}  // namespace

Exchanges exchanges_of(const Plan& plan) { return ExchangeReader(plan.device.is_host()).run(plan); }

}  // namespace coil::runtime
