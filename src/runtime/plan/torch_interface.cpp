#include "runtime/plan/torch_interface.h"

#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

TorchWeight weight_from(const Json& j) {
  TorchWeight w;
  w.name = j.at("name");
  w.constant = j.at("constant");
  w.is_parameter = j.at("parameter");
  const auto dtype = dtype_from_torch_name(j.at("dtype").get<std::string>());
  if (!dtype) fail("weight '{}' has a dtype that this runtime does not know", w.name);
  w.dtype = *dtype;
  w.sizes = j.at("sizes").get<Sizes>();
  w.strides = j.at("strides").get<Sizes>();
  if (w.sizes.size() != w.strides.size()) fail("weight '{}' has other strides than sizes", w.name);
  return w;
}

}  // namespace

std::string to_json(const TorchInterface& in) {
  Json weights = Json::array();
  for (const TorchWeight& w : in.weights)
    weights.push_back({{"name", w.name},
                       {"constant", w.constant},
                       {"parameter", w.is_parameter},
                       {"dtype", torch_name(w.dtype)},
                       {"sizes", w.sizes},
                       {"strides", w.strides}});
  const Json all = {{"version", kVersion},          {"in_spec", in.in_spec}, {"out_spec", in.out_spec},
                    {"inputs", in.inputs},          {"outputs", in.leaves},  {"fixed", in.fixed},
                    {"weights", std::move(weights)}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace);
}

TorchInterface torch_interface_from_json(std::string_view text) {
  try {
    const Json all = Json::parse(text);
    if (const int version = all.at("version"); version != kVersion)
      fail("it is of version {}; this runtime reads version {}", version, kVersion);
    TorchInterface in;
    in.in_spec = all.at("in_spec");
    in.out_spec = all.at("out_spec");
    in.inputs = all.at("inputs").get<std::vector<std::int64_t>>();
    in.leaves = all.at("outputs").get<std::vector<std::int64_t>>();
    in.fixed = all.at("fixed");
    for (const Json& w : all.at("weights")) in.weights.push_back(weight_from(w));
    return in;
  } catch (const Json::exception& e) {
    fail("it is malformed: {}", e.what());
  }
}

}  // namespace coil::runtime
