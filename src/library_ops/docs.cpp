#include "library_ops/docs.h"

#include <fmt/format.h>

#include "library_ops/post_ops.h"
#include "library_ops/table.h"

namespace coil::library_ops {
namespace {

constexpr std::string_view kHead = R"(# Library operations

Work that a program calls by name and that a library (oneDNN, cuBLASLt, cuDNN, LAPACK), a loop of the runtime's or a
kernel written as it is carries out. This page is made from the table in `src/library_ops/`, which the
lowerings, the passes, the verifiers of the IR and of plans, and the runtime read; `test/unit/library_ops_test.cpp`
keeps it true (`COIL_WRITE_DOCS=1` writes it anew).

Sizes are those of the operands' views, and any strides that the views have are honoured, unless an operand is said to
be dense. An operand with *if* is there in calls whose attribute says so; one with *?* may be left out.

A new operation is an entry in a file of `src/library_ops/`, a lowering that calls it (`add_library_call`), and a file
in `src/runtime/ops/` that registers what carries it out. A process defines operations of its own with
`runtime::define_library_op` ([extending.md](extending.md)).
)";

std::string condition(const When& when) {
  const auto* flag = std::get_if<std::int64_t>(&when.value);
  if (flag && when.equal && *flag == 1) return fmt::format("if `{}`", when.attribute);
  if (flag && when.equal && *flag == 0) return fmt::format("unless `{}`", when.attribute);
  const auto* text = std::get_if<std::string>(&when.value);
  return fmt::format("if `{}` is {}{}", when.attribute, when.equal ? "" : "not ",
                     text ? "`" + *text + "`" : to_string(when.value));
}

std::string line(const Operand& o) {
  std::string text = fmt::format("`{}`{} {}", o.name, o.optional ? "?" : o.repeated ? ", …" : "", o.sizes);
  std::string notes;
  for (const std::string& note :
       {o.when ? condition(*o.when) : std::string(), o.sentence, std::string(o.packable ? "may be packed" : ""),
        std::string(o.read_by_host ? "read by the host" : "")})
    if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
  return notes.empty() ? text : text + " (" + notes + ")";
}

std::string list(std::string_view title, const std::vector<Operand>& operands) {
  std::string text = fmt::format("- {}: ", title);
  if (operands.empty()) return text + "none\n";
  for (std::size_t k = 0; k < operands.size(); ++k) text += (k ? ", " : "") + line(operands[k]);
  return text + "\n";
}

std::string default_of(const AttributeInfo& a) {
  switch (a.presence) {
    case Presence::Required: return "required";
    case Presence::Optional: return "";
    case Presence::Defaulted: break;
  }
  const bool each = std::holds_alternative<std::int64_t>(a.fallback) &&
                    (a.type == AttributeType::Integers || a.type == AttributeType::Numbers);
  return to_string(a.fallback) + (each ? " each" : "");
}

std::string section(const Descriptor& d) {
  std::string text = fmt::format("\n### {}\n\n{}\n\n", d.name, d.sentence);
  text += list("operands", d.operands) + list("results", d.results);
  std::string traits;
  for (std::size_t k = 0; k < kTraits; ++k)
    if (const auto trait = static_cast<Trait>(k); d.traits.has(trait))
      traits += fmt::format("{}{}", traits.empty() ? "" : "; ", to_string(trait));
  if (!traits.empty()) text += fmt::format("- it {}\n", traits);
  if (d.attributes.empty()) return text;
  text += "\n| attribute | type | default | |\n| --- | --- | --- | --- |\n";
  for (const AttributeInfo& a : d.attributes)
    text += fmt::format("| `{}` | {} | {} | {} |\n", a.name, to_string(a.type), default_of(a), a.sentence);
  return text;
}

std::string post_ops() {
  std::string text = R"(
## Post-operations

Applied in order to each element x of a product's or a convolution's accumulator (f32, or f64 of doubles) before it is
rounded and stored. Attribute `post` has one text for each: its name and its numbers, joined by colons
(`relu`, `clip:0:6`). Where oneDNN loses NaN, eager keeps it: attribute `nan` asks for that, and the compiler sets it
where it cannot prove that no NaN comes (`passes/loop/nan_guards.h`). One call has no two post-operations with
different numbers for the same of oneDNN's algorithms, which keeps one set of them.

| post-operation | gives | reads | oneDNN loses NaN | oneDNN's algorithms with numbers |
| --- | --- | --- | --- | --- |
)";
  for (const PostOpInfo& row : post_op_table()) {
    std::string spelling(row.name), algorithms;
    for (std::size_t k = 0; k < row.count(); ++k) spelling += fmt::format(":{}", row.numbers[k]);
    for (std::string_view a : row.algorithms)
      if (!a.empty()) algorithms += fmt::format("{}{}", algorithms.empty() ? "" : ", ", a);
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", spelling, row.formula,
                        row.reads_operand  ? "the next operand, broadcast to y"
                        : row.reads_result ? "the result's memory"
                                           : "",
                        row.loses_nan ? "yes" : "", algorithms);
  }
  return text;
}

}  // namespace

std::string docs_page() {
  std::string text(kHead);
  text += post_ops() + "\n## Operations\n";
  for (const Descriptor& d : builtin()) text += section(d);
  return text;
}

}  // namespace coil::library_ops
