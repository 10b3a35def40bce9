#include "wrapper/python/user_kernel_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "support/error.h"
#include "wrapper/python/text.h"

namespace coil::wrapper {
namespace {

using Json = nlohmann::json;

std::string list(const Json& names) {
  std::string out;
  for (const Json& n : names) out += (out.empty() ? "" : ", ") + python_string(n.get<std::string>());
  return "[" + out + "]";
}

std::string value(const Json& v) {
  if (v.is_boolean()) return v.get<bool>() ? "True" : "False";
  if (v.is_null()) return "None";
  if (v.is_number_integer()) return std::to_string(v.get<std::int64_t>());
  if (v.is_number()) return python_real(v.get<double>());
  return python_string(v.get<std::string>());
}

std::string table(const Json& entries) {
  std::string out;
  for (const auto& [name, v] : entries.items())
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", python_string(name), value(v));
  return "{" + out + "}";
}

/// Tiles of descriptors, by parameter.
std::string blocks(const Json& entries) {
  std::string out;
  for (const auto& [name, sizes] : entries.items())
    out += fmt::format("{}{}: [{}]", out.empty() ? "" : ", ", python_string(name),
                       fmt::join(sizes.get<std::vector<std::int64_t>>(), ", "));
  return "{" + out + "}";
}

}  // namespace

std::string python_user_kernel(const ops::UserKernel& kernel) {
  const Json j = kernel.program.empty() ? Json::object() : Json::parse(kernel.program);
  if (!j.contains("source"))
    fail("the kernel {} ({}) has no source text that stands on its own{}", kernel.name, kernel.where,
         j.contains("problem") ? ": " + j["problem"].get<std::string>() : "");
  std::string more;
  if (const std::string status = j.value("status", ""); !status.empty())
    more += fmt::format("    status={},\n", python_string(status));
  if (kernel.has_workspace()) more += "    has_workspace=True,\n";
  if (j.contains("descriptors")) more += fmt::format("    descriptors={},\n", blocks(j.at("descriptors")));
  return fmt::format(
      "\n\n{} = UserKernel(\n    {},\n    {},\n    {},\n    tensors={},\n    numbers={},\n    constants={},\n    "
      "options={},\n{})\n",
      kernel.symbol, python_string(j.at("name").get<std::string>()), python_string(kernel.where),
      python_block("\n" + j.at("source").get<std::string>()), list(j.at("tensors")), list(j.at("numbers")),
      table(j.at("constants")), table(j.at("options")), more);
}

}  // namespace coil::wrapper
