#include "runtime/operators.h"

#include <map>
#include <memory>
#include <mutex>

#include "runtime/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// The registrations of this process. Entries are never moved or removed.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const RegisteredOperator>, std::less<>> operators;
};

Registry& registry() {
  static Registry r;
  return r;
}

/// A schema as it is compared: without spaces, names of results, and the difference between a size and any other integer, which is the compiler's matter alone.
std::string comparable(std::string_view schema) {
  std::string out;
  for (char c : schema)
    if (c != ' ') out += c == '\'' ? '"' : c;
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"SymInt", "int"}, {"SymFloat", "float"}, {"SymBool", "bool"}})
    for (std::size_t at = out.find(from); at != out.npos; at = out.find(from, at)) out.replace(at, from.size(), to);
  return out;
}

class RegisteredOp : public HostOp {
 public:
  RegisteredOp(const HostCall& call, const RegisteredOperator& registered) : call_(call), registered_(registered) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs, std::span<const std::int64_t> slots) override {
    inputs_.clear(), outputs_.assign(call_.outputs.size(), {}), arguments_.clear();
    for (const BoundView& v : inputs) inputs_.push_back(tensor(v));
    for (std::size_t i = 0, next = 0; i < outputs_.size(); ++i)
      if (call_.outputs[i]) outputs_[i] = tensor(outputs[next++]);
    slots_.assign(slots.begin(), slots.end());
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) lend(inputs_[i], const_cast<void*>(inputs[i]));
    for (std::size_t i = 0, next = 0; i < outputs_.size(); ++i)
      if (call_.outputs[i]) lend(outputs_[i], outputs[next++]);
    // What it writes to are copies, in the memory of its last outputs.
    const std::size_t own = outputs_.size() - call_.writes.size();
    for (std::size_t k = 0; k < call_.writes.size(); ++k) copy_strided(outputs_[own + k], inputs_[call_.writes[k]]);
    arguments_.clear();
    for (const NamedHostArgument& a : call_.arguments) arguments_.push_back(value(a.value));
    registered_.function(arguments_, std::span(outputs_).first(own));
  }

 private:
  static Tensor tensor(const BoundView& v) {
    Tensor t;
    t.dtype = v.dtype;
    t.sizes = v.sizes;
    t.strides = v.strides;
    t.storage.bytes = static_cast<std::size_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype);
    return t;
  }
  static void lend(Tensor& t, void* memory) { t.storage.data = std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(memory)); }

  OperatorArgument value(const HostArgument& a) const {
    if (auto* b = std::get_if<bool>(&a)) return *b;
    if (auto* d = std::get_if<double>(&a)) return *d;
    if (auto* s = std::get_if<std::string>(&a)) return *s;
    if (auto* i = std::get_if<HostInteger>(&a)) return slots_[i->slot];
    if (auto* n = std::get_if<HostName>(&a)) return n->text;
    if (auto* o = std::get_if<HostOperand>(&a)) {
      for (std::size_t k = 0; k < call_.writes.size(); ++k)
        if (call_.writes[k] == o->index) return outputs_[outputs_.size() - call_.writes.size() + k];
      return inputs_[o->index];
    }
    if (auto* list = std::get_if<std::vector<HostArgument>>(&a)) {
      std::vector<OperatorArgument> items;
      for (const HostArgument& item : *list) items.push_back(value(item));
      return items;
    }
    return std::monostate{};
  }

  const HostCall call_;
  const RegisteredOperator& registered_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<std::int64_t> slots_;
  std::vector<OperatorArgument> arguments_;
};

}  // namespace

std::string operator_name(std::string_view schema) {
  const std::size_t colons = schema.find("::"), end = schema.find('(');
  if (colons == schema.npos || end == schema.npos || colons == 0 || end <= colons + 2) fail("'{}' is no schema: one reads `mylib::scale(Tensor x, float by=1.0) -> Tensor`", schema);
  std::string name = std::string(schema.substr(0, colons)) + "." + std::string(schema.substr(colons + 2, end - colons - 2));
  if (name.find('.', colons + 1) == name.npos) name += ".default";
  return name;
}

void register_operator(std::string_view schema, OperatorFunction function) {
  std::string name = operator_name(schema);
  if (!function) fail("operator {} has no function", name);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto made = std::make_unique<const RegisteredOperator>(RegisteredOperator{std::string(schema), std::move(function)});
  if (!r.operators.emplace(name, std::move(made)).second) fail("operator {} is registered already", name);
}

const RegisteredOperator* find_operator(std::string_view name, std::string_view schema) {
  const RegisteredOperator* found = nullptr;
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    if (auto it = r.operators.find(name); it != r.operators.end()) found = it->second.get();
  }
  if (found && !schema.empty() && comparable(schema) != comparable(found->schema))
    fail("operator {} is registered as `{}`, but the program was compiled for `{}`", name, found->schema, schema);
  return found;
}

std::vector<std::string> registered_schemas() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> out;
  for (const auto& [name, registered] : r.operators) out.push_back(registered->schema);
  return out;
}

Host registered_operators() {
  return [](const HostCall& call) -> std::unique_ptr<HostOp> {
    const RegisteredOperator* found = find_operator(call.op, call.schema);
    return found ? std::make_unique<RegisteredOp>(call, *found) : nullptr;
  };
}

}  // namespace coil::runtime
