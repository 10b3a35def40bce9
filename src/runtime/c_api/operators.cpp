// The C interface to operators that the host program carries out.
#include <deque>

#include "runtime/c_api/interface.h"
#include "runtime/host/operators.h"
#include "runtime/host/symm_mem_args.h"
#include "support/error.h"

using namespace coil;
using namespace coil::runtime;

namespace {

/// Arguments as plain structs; what they point to lives as long as this.
class Values {
 public:
  explicit Values(std::span<const OperatorArgument> arguments) {
    for (const OperatorArgument& a : arguments) values_.push_back(value(a));
  }
  const coil_value* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  coil_value value(const OperatorArgument& a) {
    coil_value v{};
    if (auto* b = std::get_if<bool>(&a)) v.kind = COIL_VALUE_BOOL, v.integer = *b;
    if (auto* i = std::get_if<std::int64_t>(&a)) v.kind = COIL_VALUE_INT, v.integer = *i;
    if (auto* d = std::get_if<double>(&a)) v.kind = COIL_VALUE_FLOAT, v.real = *d;
    if (auto* s = std::get_if<std::string>(&a)) v.kind = COIL_VALUE_TEXT, v.text = s->c_str();
    if (auto* t = std::get_if<Tensor>(&a))
      v.kind = COIL_VALUE_TENSOR, v.tensor = &tensors_.emplace_back(coil::runtime::to_c(*t));
    if (auto* list = std::get_if<std::vector<OperatorArgument>>(&a)) {
      std::vector<coil_value> items;
      for (const OperatorArgument& item : *list) items.push_back(value(item));
      v.kind = COIL_VALUE_LIST;
      v.count = items.size();
      v.items = lists_.emplace_back(std::move(items)).data();
    }
    return v;
  }
  std::vector<coil_value> values_;
  std::deque<coil_tensor> tensors_;
  std::deque<std::vector<coil_value>> lists_;
};

/// A plain argument as the registry's functions take it.
OperatorArgument argument(const coil_value& v) {
  switch (v.kind) {
    case COIL_VALUE_NONE: return std::monostate{};
    case COIL_VALUE_BOOL: return v.integer != 0;
    case COIL_VALUE_INT: return v.integer;
    case COIL_VALUE_FLOAT: return v.real;
    case COIL_VALUE_TEXT: return std::string(v.text ? v.text : "");
    case COIL_VALUE_TENSOR:
      if (!v.tensor) fail("an argument that is a tensor has none");
      return borrow(*v.tensor);
    case COIL_VALUE_LIST: break;
  }
  if (v.kind != COIL_VALUE_LIST || (v.count > 0 && !v.items))
    fail("an argument is of no kind that there is: {}", static_cast<int>(v.kind));
  std::vector<OperatorArgument> items;
  for (size_t i = 0; i < v.count; ++i) items.push_back(argument(v.items[i]));
  return items;
}

const coil_operator* to_c(const RegisteredOperator* found) { return reinterpret_cast<const coil_operator*>(found); }
const RegisteredOperator& registered(const coil_operator* op) {
  if (!op) fail("no operator was given");
  return *reinterpret_cast<const RegisteredOperator*>(op);
}

std::vector<OperatorArgument> arguments_of(const coil_value* arguments, size_t count) {
  std::vector<OperatorArgument> values;
  for (size_t i = 0; i < count; ++i) values.push_back(argument(arguments[i]));
  return values;
}

[[noreturn]] void fail_as_told(const std::string& name) {
  const std::string why = coil_last_error();
  fail("{}{}{}", name, why.empty() ? " failed" : ": ", why);
}

}  // namespace

/// The tensors and, at places that stay, what C sees of them.
struct coil_results {
  std::vector<Tensor> made;
  std::deque<coil_tensor> plain;
  coil_tensor* add(Tensor t) {
    plain.push_back(coil::runtime::to_c(t));
    made.push_back(std::move(t));
    return &plain.back();
  }
};

extern "C" {

int coil_operator_register(const char* schema, coil_operator_function function, void* user) {
  return guarded([&] {
    if (!schema || !function) fail("an operator needs a schema and a function");
    register_operator(schema, [function, user, name = operator_name(schema)](
                                  std::span<const OperatorArgument> arguments, std::span<const Tensor> outputs) {
      const Values values(arguments);
      std::vector<coil_tensor> results;
      for (const Tensor& t : outputs)
        results.push_back(t.sizes.empty() && !t.storage.data ? coil_tensor{} : coil::runtime::to_c(t));
      coil_set_error("");
      if (function(values.data(), values.size(), results.data(), results.size(), user) != 0) fail_as_told(name);
    });
  });
}

int coil_operator_symm_mem_args(const char* schema, const char* const* names, size_t count) {
  return guarded([&] {
    if (!schema || (!names && count > 0)) fail("an operator's schema and names of its arguments are needed");
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) list.emplace_back(names[i] ? names[i] : "");
    register_symm_mem_args(schema, std::move(list));
  });
}

int coil_operator_register_results(const char* schema, coil_results_function function, void* user) {
  return guarded([&] {
    if (!schema || !function) fail("an operator needs a schema and a function");
    register_operator(schema,
                      [function, user, name = operator_name(schema)](std::span<const OperatorArgument> arguments) {
                        const Values values(arguments);
                        coil_results results;
                        coil_set_error("");
                        if (function(values.data(), values.size(), &results, user) != 0) fail_as_told(name);
                        return std::move(results.made);
                      });
  });
}

coil_tensor* coil_results_add(coil_results* results, coil_dtype dtype, int32_t rank, const int64_t* sizes) {
  return guarded_pointer([&] {
    if (!results || (rank > 0 && !sizes)) fail("a result needs its sizes and the results that it is one of");
    if (rank < 0 || rank > COIL_MAX_RANK) fail("a result has {} dimensions", rank);
    for (int32_t d = 0; d < rank; ++d)
      if (sizes[d] < 0) fail("a result would have the size {}", sizes[d]);
    return results->add(Tensor::empty(from_c(dtype), Sizes(sizes, sizes + rank)));
  });
}

size_t coil_results_count(const coil_results* results) { return results ? results->plain.size() : 0; }
const coil_tensor* coil_results_at(const coil_results* results, size_t index) {
  return index < coil_results_count(results) ? &results->plain[index] : nullptr;
}
void coil_results_free(coil_results* results) { delete results; }

const coil_operator* coil_operator_find(const char* name, const char* schema) {
  const coil_operator* found = nullptr;
  guarded([&] {
    found = to_c(find_operator(name, schema ? schema : ""));
    if (!found)
      fail(
          "the program leaves {} ({}) to its host, which has no such operator; register it with coil_operator_register "
          "first",
          name, schema ? schema : "");
  });
  return found;
}

int coil_operator_call(const coil_operator* op, const coil_value* arguments, size_t argument_count,
                       const coil_tensor* outputs, size_t output_count) {
  return guarded([&] {
    const RegisteredOperator& called = registered(op);
    std::vector<Tensor> results;
    for (size_t i = 0; i < output_count; ++i) results.push_back(outputs[i].data ? borrow(outputs[i]) : Tensor{});
    call_operator(called, operator_name(called.schema), arguments_of(arguments, argument_count), results);
  });
}

coil_results* coil_operator_results(const coil_operator* op, const coil_value* arguments, size_t argument_count) {
  return guarded_pointer([&] {
    const RegisteredOperator& called = registered(op);
    auto results = std::make_unique<coil_results>();
    for (Tensor& t : make_results(called, operator_name(called.schema), arguments_of(arguments, argument_count)))
      results->add(std::move(t));
    return results.release();
  });
}

}  // extern "C"
