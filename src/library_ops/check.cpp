#include "library_ops/check.h"

#include <algorithm>
#include <ranges>

#include "library_ops/call.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil::library_ops {
namespace {

/// What a call means by an attribute that it may not give.
Attribute value_of(const Descriptor& d, const Attributes& attributes, const std::string& name) {
  if (const auto found = attributes.find(name); found != attributes.end()) return found->second;
  const AttributeInfo* info = d.attribute(name);
  COIL_CHECK(info, "an operand of {} asks for attribute {}", d.name, name);
  return info->fallback;
}

bool is_there(const Descriptor& d, const Attributes& attributes, const Operand& o) {
  return !o.when || (value_of(d, attributes, o.when->attribute) == o.when->value) == o.when->equal;
}

/// `x, weight, bias, flag?`: what the call takes or gives, and how many that are.
struct Expected {
  std::vector<std::string> names;
  std::size_t least = 0, most = 0;
};

Expected expected(const Descriptor& d, const Attributes& attributes, const std::vector<Operand>& operands) {
  Expected out;
  for (const Operand& o : operands) {
    if (!is_there(d, attributes, o)) continue;
    if (o.of_post_ops) {
      const std::size_t count = operands_of(parse_post_ops(read(attributes, kPost)));
      out.least += count, out.most += count;
      for (std::size_t k = 0; k < count; ++k) out.names.push_back("a post-operation's operand");
      continue;
    }
    if (o.of_pre) {
      const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, read(attributes, kPreOperands)));
      out.least += count, out.most += count;
      for (std::size_t k = 0; k < count; ++k) out.names.push_back("an operand of pre");
      continue;
    }
    out.least += o.optional ? 0 : 1;
    out.most = o.repeated ? SIZE_MAX : out.most + 1;
    out.names.push_back(o.optional ? o.name + "?" : o.repeated ? o.name + ", …" : o.name);
  }
  return out;
}

void check_count(const Descriptor& d, const Attributes& attributes, const std::vector<Operand>& operands,
                 std::size_t given, std::string_view verb, std::string_view what) {
  const Expected e = expected(d, attributes, operands);
  if (given >= e.least && given <= e.most) return;
  fail("{} {} {} {} in this call ({}), but has {}", d.name, verb,
       e.least == e.most    ? std::to_string(e.most)
       : e.most == SIZE_MAX ? fmt::format("{} or more", e.least)
                            : fmt::format("{} to {}", e.least, e.most),
       what, fmt::join(e.names, ", "), given);
}

bool is_repeated(const std::vector<Operand>& operands) { return std::ranges::any_of(operands, &Operand::repeated); }

void check_post_ops(const Descriptor& d, const Attributes& attributes) {
  for (const PostOp& op : parse_post_ops(read(attributes, kPost)))
    if (std::ranges::find(d.post_ops, op.kind) == d.post_ops.end())
      fail("{} does not take the post-operation '{}'", d.name, to_string(op));
}

}  // namespace

void check_attributes(const Descriptor& d, const Attributes& attributes) {
  if (d.open) return;
  for (const auto& [name, value] : attributes) {
    const AttributeInfo* info = d.attribute(name);
    if (!info)
      fail("{} has no attribute '{}'; its attributes are: {}", d.name, name,
           fmt::join(d.attributes | std::views::transform(&AttributeInfo::name), ", "));
    if (!is_of(value, info->type))
      fail("attribute '{}' of {} is {}, which is no {}", name, d.name, to_string(value), to_string(info->type));
  }
  for (const AttributeInfo& info : d.attributes)
    if (info.presence == Presence::Required && !attributes.contains(info.name))
      fail("a call of {} lacks attribute '{}'", d.name, info.name);
  if (d.attribute(kPost.name)) check_post_ops(d, attributes);
}

void check_operands(const Descriptor& d, const Attributes& attributes, std::size_t inputs, std::size_t outputs) {
  if (d.open) return;
  check_count(d, attributes, d.operands, inputs, "takes", "operands");
  check_count(d, attributes, d.results, outputs, "gives", "results");
  if (is_repeated(d.operands) && is_repeated(d.results) && inputs != outputs)
    fail("{} gives as many results as it takes operands in one call, but has {} of {}", d.name, outputs, inputs);
}

void check_call(std::string_view op, const Attributes& attributes, std::size_t inputs, std::size_t outputs) {
  const Descriptor& d = get(op);
  check_attributes(d, attributes);
  check_operands(d, attributes, inputs, outputs);
}

}  // namespace coil::library_ops
