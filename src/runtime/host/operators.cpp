#include "runtime/host/operators.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/views/strided_copy.h"
#include "support/error.h"
#include "support/host_names.h"

namespace coil::runtime {
namespace {

/// The registrations of this process. Entries are never moved or removed.
struct OperatorRegistry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const RegisteredOperator>, std::less<>> operators;
};

OperatorRegistry& operator_registry() {
  static OperatorRegistry r;
  return r;
}

/// A schema as it is compared: without spaces, names of results, and the difference between a size and any other
/// integer, which is the compiler's matter alone.
std::string comparable(std::string_view schema) {
  std::string out;
  for (char c : schema)
    if (c != ' ') out += c == '\'' ? '"' : c;
  for (const auto& [from, to] :
       {std::pair<std::string_view, std::string_view>{"SymInt", "int"}, {"SymFloat", "float"}, {"SymBool", "bool"}})
    for (std::size_t at = out.find(from); at != out.npos; at = out.find(from, at)) out.replace(at, from.size(), to);
  return out;
}

std::string describe(const Tensor& t) { return fmt::format("{}[{}]", short_name(t.dtype), fmt::join(t.sizes, ", ")); }

/// Copies results to where they are wanted.
void deliver(std::string_view name, std::span<const Tensor> results, std::span<const Tensor> outputs) {
  if (results.size() < outputs.size())
    fail("{} gave {} results where {} were expected", name, results.size(), outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].storage.data) continue;
    if (results[i].dtype != outputs[i].dtype || results[i].sizes != outputs[i].sizes)
      fail("{} gave {} where {} was expected", name, describe(results[i]), describe(outputs[i]));
    copy_strided(outputs[i], results[i]);
  }
}

/// Results between the two calls of an operator that alone tells their sizes.
class KeptResults {
 public:
  std::int64_t keep(std::vector<Tensor> results) {
    std::lock_guard lock(mutex_);
    kept_.emplace(++last_, std::move(results));
    return last_;
  }
  std::vector<Tensor> take(std::int64_t number) {
    std::lock_guard lock(mutex_);
    auto node = kept_.extract(number);
    COIL_CHECK(!node.empty(), "no results are kept under {}", number);
    return std::move(node.mapped());
  }
  void drop(std::int64_t number) {
    std::lock_guard lock(mutex_);
    kept_.erase(number);
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, std::vector<Tensor>> kept_;
  std::int64_t last_ = 0;
};

/// A call site: operands and results as tensors of the run.
class RegisteredOp : public HostOp {
 public:
  RegisteredOp(const HostCall& call, const RegisteredOperator& registered) : call_(call), registered_(registered) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs,
               std::span<const std::int64_t> slots) override {
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
    carry_out(std::span(outputs_).first(own));
  }

 protected:
  virtual void carry_out(std::span<const Tensor> outputs) { call_operator(registered_, call_.op, arguments_, outputs); }

  const HostCall call_;
  const RegisteredOperator& registered_;
  std::vector<Tensor> inputs_;
  std::vector<OperatorArgument> arguments_;

 private:
  Tensor tensor(const BoundView& v) const {
    if (!v.device.is_host())
      fail("{}, an operator of the CPU, is given memory of {}", without_prefix(call_.op), to_string(v.device));
    Tensor t;
    t.dtype = v.dtype;
    t.sizes = v.sizes;
    t.strides = v.strides;
    t.storage.bytes = static_cast<std::size_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype);
    return t;
  }
  static void lend(Tensor& t, void* memory) {
    t.storage.data = std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(memory));
  }

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

  std::vector<Tensor> outputs_;
  std::vector<std::int64_t> slots_;
};

/// The call that runs the operator and keeps its results. It gives the number that they are kept by and their sizes.
class SizedOp : public RegisteredOp {
 public:
  SizedOp(const HostCall& call, const RegisteredOperator& registered, std::shared_ptr<KeptResults> kept)
      : RegisteredOp(call, registered), kept_(std::move(kept)) {}
  ~SizedOp() override { kept_->drop(last_); }

 private:
  void carry_out(std::span<const Tensor> outputs) override {
    kept_->drop(last_);  // of a run that failed before it took them
    const std::string_view name = without_prefix(call_.op);
    std::vector<Tensor> results = make_results(registered_, name, std::span(arguments_).subspan(1));
    const auto& which = std::get<std::vector<OperatorArgument>>(arguments_[0]);
    auto* told = outputs[0].data<std::int64_t>();
    for (std::size_t i = 0; i + 1 < which.size(); i += 2) {
      const auto result = static_cast<std::size_t>(std::get<std::int64_t>(which[i])),
                 dim = static_cast<std::size_t>(std::get<std::int64_t>(which[i + 1]));
      if (result >= results.size()) fail("{} gave {} results where {} were expected", name, results.size(), result + 1);
      if (dim >= results[result].sizes.size())
        fail("{} gave {} where {} dimensions were expected", name, describe(results[result]), dim + 1);
      told[1 + i / 2] = results[result].sizes[dim];
    }
    told[0] = last_ = kept_->keep(std::move(results));
  }

  std::shared_ptr<KeptResults> kept_;
  std::int64_t last_ = 0;
};

/// The call that takes the kept results by their number and copies them to where they are wanted.
class KeptOp : public RegisteredOp {
 public:
  KeptOp(const HostCall& call, const RegisteredOperator& registered, std::shared_ptr<KeptResults> kept)
      : RegisteredOp(call, registered), kept_(std::move(kept)) {}

 private:
  void carry_out(std::span<const Tensor> outputs) override {
    deliver(without_prefix(call_.op), kept_->take(*inputs_.at(0).data<std::int64_t>()), outputs);
  }

  std::shared_ptr<KeptResults> kept_;
};

/// Adds to the registry under the name that the schema says.
void add(std::string_view schema, RegisteredOperator registered) {
  std::string name = operator_name(schema);
  if (!registered.function && !registered.make) fail("operator {} has no function", name);
  OperatorRegistry& r = operator_registry();
  std::lock_guard lock(r.mutex);
  if (!r.operators.emplace(name, std::make_unique<const RegisteredOperator>(std::move(registered))).second)
    fail("operator {} is registered already", name);
}

}  // namespace

std::string operator_name(std::string_view schema) {
  const std::size_t colons = schema.find("::"), end = schema.find('(');
  if (colons == schema.npos || end == schema.npos || colons == 0 || end <= colons + 2)
    fail("'{}' is no schema: one reads `mylib::scale(Tensor x, float by=1.0) -> Tensor`", schema);
  std::string name =
      std::string(schema.substr(0, colons)) + "." + std::string(schema.substr(colons + 2, end - colons - 2));
  if (name.find('.', colons + 1) == name.npos) name += ".default";
  return name;
}

void register_operator(std::string_view schema, OperatorFunction function) {
  add(schema, {std::string(schema), std::move(function), {}});
}
void register_operator(std::string_view schema, ResultsFunction make) {
  add(schema, {std::string(schema), {}, std::move(make)});
}

/// How many results a schema has; nothing where a list may be any length, or where arguments that are written to are
/// among them.
static std::optional<std::size_t> count_of_results(std::string_view schema) {
  const std::size_t arrow = schema.rfind("->");
  if (arrow == schema.npos) return {};
  const std::string_view results = schema.substr(arrow + 2);
  if (results.find_first_of("[!") != results.npos) return {};
  if (results.find("Tensor") == results.npos) return {};
  return 1 + static_cast<std::size_t>(std::ranges::count(results, ','));
}

static std::vector<Tensor> made(const RegisteredOperator& registered, std::string_view name,
                                std::span<const OperatorArgument> arguments) {
  std::vector<Tensor> results = registered.make(arguments);
  if (const auto count = count_of_results(registered.schema); count && *count != results.size())
    fail("{} gave {} results where {} were expected", name, results.size(), *count);
  return results;
}

std::vector<Tensor> make_results(const RegisteredOperator& registered, std::string_view name,
                                 std::span<const OperatorArgument> arguments) {
  if (!registered.make)
    fail(
        "operator {} is registered with a function that is given memory for its results, but the program asks it for "
        "their sizes; register it with coil_operator_register_results",
        name);
  return made(registered, name, arguments);
}

void call_operator(const RegisteredOperator& registered, std::string_view name,
                   std::span<const OperatorArgument> arguments, std::span<const Tensor> outputs) {
  if (registered.function)
    registered.function(arguments, outputs);
  else
    deliver(name, made(registered, name, arguments), outputs);
}

const RegisteredOperator* find_operator(std::string_view name, std::string_view schema) {
  const RegisteredOperator* found = nullptr;
  {
    OperatorRegistry& r = operator_registry();
    std::lock_guard lock(r.mutex);
    if (auto it = r.operators.find(name); it != r.operators.end()) found = it->second.get();
  }
  if (found && !schema.empty() && comparable(schema) != comparable(found->schema))
    fail("operator {} is registered as `{}`, but the program was compiled for `{}`", name, found->schema, schema);
  return found;
}

std::vector<std::string> registered_schemas() {
  OperatorRegistry& r = operator_registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> out;
  for (const auto& [name, registered] : r.operators) out.push_back(registered->schema);
  return out;
}

Host registered_operators() {
  return [kept = std::make_shared<KeptResults>()](const HostCall& call) -> std::unique_ptr<HostOp> {
    const std::string_view name = without_prefix(call.op);
    const RegisteredOperator* found = find_operator(name, call.schema);
    if (!found) return nullptr;
    const bool is_sized = call.op.starts_with(kSized);
    if (!is_sized && !call.op.starts_with(kKept)) return std::make_unique<RegisteredOp>(call, *found);
    if (!found->make) make_results(*found, name, {});  // refuses
    if (is_sized) return std::make_unique<SizedOp>(call, *found, kept);
    return std::make_unique<KeptOp>(call, *found, kept);
  };
}

}  // namespace coil::runtime
