#include "runtime/plan/host_operators.h"

#include <map>
#include <nlohmann/json.hpp>

namespace coil::runtime {

std::string host_operators_json(const Plan& plan) {
  using Ordered = nlohmann::ordered_json;
  Ordered list = Ordered::array();
  std::map<std::string, std::size_t> places;
  std::vector<std::size_t> inside;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    if (const auto* c = std::get_if<Control>(&plan.steps[k])) {
      using Kind = Control::Kind;
      if (c->kind == Kind::Else || c->kind == Kind::EndIf || c->kind == Kind::EndLoop) inside.pop_back();
      if (c->kind == Kind::If || c->kind == Kind::Else || c->kind == Kind::Loop) inside.push_back(k);
    }
    const auto* call = std::get_if<HostCall>(&plan.steps[k]);
    if (!call) continue;
    const auto [place, added] = places.emplace(call->op, list.size());
    if (added) list.push_back({{"operator", call->op}, {"schema", call->schema}, {"calls", Ordered::array()}});
    list[place->second]["calls"].push_back({{"step", k}, {"inside", inside}});
  }
  return list.empty() ? "" : list.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

}  // namespace coil::runtime
