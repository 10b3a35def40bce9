// Kernels of the CPU, and operators that the host program has registered.
#pragma once
#include "helpers.h"

// @piece kernel_calls
namespace {

inline void call(coil_kernel kernel, std::initializer_list<void*> buffers, Sizes scalars, Size extent, Size grain) {
  static_assert(sizeof(Size) == sizeof(int64_t));
  coil_parallel_for(kernel, buffers.begin(), reinterpret_cast<const int64_t*>(scalars.begin()), extent.value,
                    grain.value);
}

}  // namespace

// @piece calls_cpu
namespace {

/// What an operator writes to is a copy.
void copy(const coil_tensor& to, const coil_tensor& from) { check(coil_tensor_copy(&to, &from)); }

/// Results between the two calls of an operator that alone tells their sizes.
class Kept {
 public:
  using Results = std::unique_ptr<coil_results, decltype(&coil_results_free)>;
  int64_t keep(Results results) {
    results_.emplace(++last_, std::move(results));
    return last_;
  }
  void take(const char* name, const coil_tensor& told, std::initializer_list<coil_tensor> outputs) {
    const auto found = results_.extract(read_number(told.data).value);
    size_t k = 0;
    for (const coil_tensor& to : outputs) {
      const coil_tensor* from = coil_results_at(found.mapped().get(), k++);
      if (!to.data) continue;
      if (!from) fail(std::string(name) + " gave fewer results than were expected");
      if (shape(*from) != shape(to))
        fail(std::string(name) + " gave " + shape(*from) + " where " + shape(to) + " was expected");
      check(coil_tensor_copy(&to, from));
    }
  }
  void clear() { results_.clear(); }

 private:
  std::map<int64_t, Results> results_;
  int64_t last_ = 0;
};

/// An operator that the host program has registered: looked up when the program is opened.
class HostOperator {
 public:
  HostOperator(const char* name, const char* schema) : op_(coil_operator_find(name, schema)) {
    if (!op_) fail(coil_last_error());
  }
  void run(std::initializer_list<coil_value> arguments, std::initializer_list<coil_tensor> outputs) const {
    check(coil_operator_call(op_, arguments.begin(), arguments.size(), outputs.begin(), outputs.size()));
  }
  /// Runs it and keeps its results: into `told` goes the number that they are kept under, then the sizes asked for, as
  /// pairs of a result and a dimension.
  void tell(Kept& kept, std::initializer_list<int64_t> which, std::initializer_list<coil_value> arguments,
            const coil_tensor& told) const {
    Kept::Results results(coil_operator_results(op_, arguments.begin(), arguments.size()), coil_results_free);
    if (!results) fail(coil_last_error());
    auto* out = static_cast<int64_t*>(told.data);
    for (const int64_t* pair = which.begin(); pair != which.end(); pair += 2) {
      const coil_tensor* result = coil_results_at(results.get(), static_cast<size_t>(pair[0]));
      if (!result || pair[1] >= result->rank)
        fail("an operator of the host gave fewer results, or dimensions, than were expected");
      *++out = result->sizes[pair[1]];
    }
    *static_cast<int64_t*>(told.data) = kept.keep(std::move(results));
  }

 private:
  const coil_operator* op_;
};

// Arguments of such operators; what they point to lives until the call is over.
coil_value truth(bool v) { return {COIL_VALUE_BOOL, v, 0, nullptr, nullptr, nullptr, 0}; }
coil_value whole(Size v) { return {COIL_VALUE_INT, v.value, 0, nullptr, nullptr, nullptr, 0}; }
coil_value fraction(double v) { return {COIL_VALUE_FLOAT, 0, v, nullptr, nullptr, nullptr, 0}; }
coil_value text(const char* v) { return {COIL_VALUE_TEXT, 0, 0, v, nullptr, nullptr, 0}; }
coil_value operand(const coil_tensor& v) { return {COIL_VALUE_TENSOR, 0, 0, nullptr, &v, nullptr, 0}; }
coil_value items(std::initializer_list<coil_value> v) {
  return {COIL_VALUE_LIST, 0, 0, nullptr, nullptr, v.begin(), v.size()};
}

}  // namespace
