#include "wrapper/cpp/support_text.h"

#include <fmt/format.h>

#include "sym/print.h"
#include "tensor/dtype.h"
#include "wrapper/cpp/device_text.h"

namespace coil::wrapper {
namespace {

constexpr const char* kHead = R"cpp(#include <coil/runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC diagnostic ignored "-Wunused-function"  // a program needs some of what
                                                                                        // follows

                                    namespace {

                                    [[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }
                                    void check(int error) {
                                      if (error) fail(coil_last_error());
                                    }

                                    /// 64-bit arithmetic on sizes that refuses to overflow.
                                    struct Size {
                                      int64_t value = 0;
                                      Size() = default;
                                      constexpr Size(std::integral auto v) : value(static_cast<int64_t>(v)) {}
                                      explicit operator int64_t() const { return value; }
                                      explicit operator bool() const { return value != 0; }
                                    };
                                    [[noreturn]] void overflow() { fail("the sizes of this call overflow 64 bits"); }
                                    Size operator+(Size a, Size b) {
                                      if (__builtin_add_overflow(a.value, b.value, &a.value)) overflow();
                                      return a;
                                    }
                                    Size operator-(Size a, Size b) {
                                      if (__builtin_sub_overflow(a.value, b.value, &a.value)) overflow();
                                      return a;
                                    }
                                    Size operator*(Size a, Size b) {
                                      if (__builtin_mul_overflow(a.value, b.value, &a.value)) overflow();
                                      return a;
                                    }
                                    Size operator/(Size a, Size b) {
                                      if (b.value == 0) fail("the sizes of this call lead to a division by zero");
                                      return b.value == -1 ? Size() - a : Size(a.value / b.value);
                                    }
                                    Size operator%(Size a, Size b) {
                                      if (b.value == 0) fail("the sizes of this call lead to a division by zero");
                                      return b.value == -1 ? 0 : a.value % b.value;
                                    }
                                    Size operator-(Size a) { return Size() - a; }
                                    Size operator&(Size a, Size b) { return a.value & b.value; }
                                    Size operator|(Size a, Size b) { return a.value | b.value; }
                                    Size operator^(Size a, Size b) { return a.value ^ b.value; }
                                    Size operator<<(Size a, Size b) {
                                      if (b.value < 0 || b.value > 62) overflow();
                                      return a * Size(int64_t{1} << b.value);
                                    }
                                    Size operator>>(Size a, Size b) { return a.value >> (b.value < 0 || b.value > 63 ? 63 : b.value); }
                                    Size& operator*=(Size& a, Size b) { return a = a * b; }
                                    Size& operator++(Size& a) { return a = a + 1; }
                                    bool operator==(Size a, Size b) { return a.value == b.value; }
                                    bool operator<(Size a, Size b) { return a.value < b.value; }
                                    bool operator<=(Size a, Size b) { return a.value <= b.value; }
                                    using Sizes = std::initializer_list<Size>;

                                    // Sizes that are made of floats.
                                    double to_float(Size v) { return static_cast<double>(v.value); }
                                    Size to_size(double x) {
                                      if (!(std::fabs(x) < 0x1p63))
                                        fail("a size is made of the float " + std::to_string(x) + ", which does not fit in 64 bits");
                                      return static_cast<int64_t>(x);
                                    }
                                    // Floats that are read from data, and those that kernels are given, travel as their
                                    // bits.
                                    double float_of_bits(Size v) {
                                      double x;
                                      std::memcpy(&x, &v.value, sizeof x);
                                      return x;
                                    }
                                    Size bits_of_float(double x) {
                                      Size v;
                                      std::memcpy(&v.value, &x, sizeof x);
                                      return v;
                                    }
                                    double float_remainder(double a, double b) {
                                      const double r = std::fmod(a, b);
                                      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
                                    }
)cpp";

constexpr const char* kHelpers = R"cpp(
  const Dtype& describe(coil_dtype number) {
    for (const Dtype& d : dtypes)
      if (d.number == number) return d;
    fail("a tensor has an unknown dtype");
  }

#ifdef COIL_CHECK_LIFETIMES
  constexpr bool watched = true;
#else
  constexpr bool watched = false;
#endif

  /// The address of memory that is there.
  struct Address {
    char* at = nullptr;
    operator char*() const {
      if (!at) fail("lifetimes: a buffer is used that is not allocated");
      return at;
    }
  };

  /// Memory from the runtime's pool, given back when this goes out of scope. Of watched programs on the CPU it holds
  /// NaN before something is written to it and after it was freed, and ends in a guard.
  struct Memory {
    static constexpr bool filled = watched && !on_device;
    static constexpr size_t guard = filled ? 64 : 0;
    Address data;
    void* owner = nullptr;  ///< for coil_retain and coil_free
    size_t bytes = 0;
    bool handed_on = false;
    Memory() = default;
    explicit Memory(Size size) : bytes(static_cast<size_t>(size.value)) {
      if (size < 0) fail("a buffer would have a negative size");
      data.at = allocate(bytes + guard, owner);
      if (!data.at) fail(coil_last_error());
      if (filled) std::memset(data.at, 0xff, bytes + guard);
    }
    Memory(Memory&& other) noexcept { swap(other); }
    Memory& operator=(Memory&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Memory() { release(); }
    /// A second owner: the kernel that reads one of the two while it writes the other may do so in place.
    Memory share() {
      Memory other;
      other.data.at = data;
      other.owner = coil_retain(owner);
      other.bytes = bytes;
      handed_on = true;
      return other;
    }
    void free() {
      if (filled && !handed_on) {
        for (size_t i = bytes; i < bytes + guard; ++i)
          if (data.at[i] != static_cast<char>(0xff)) fail("lifetimes: something was written behind the end of a "
                                                          "buffer");
        std::memset(data.at, 0xff, bytes);
      }
      release();
    }
    void release() {
      coil_free(owner);
      owner = data.at = nullptr;
    }
    void swap(Memory& other) noexcept {
      std::swap(data, other.data);
      std::swap(owner, other.owner);
      std::swap(bytes, other.bytes);
      std::swap(handed_on, other.handed_on);
    }
  };

  /// A window on memory; offset in elements.
  coil_tensor window(coil_dtype dtype, void* data, Sizes sizes, Sizes strides, Size offset = 0) {
    coil_tensor t{};
    t.data = static_cast<char*>(data) + (offset * describe(dtype).bytes).value;
    t.dtype = dtype;
    t.on_device = on_device;
    for (Size s : sizes) t.sizes[t.rank++] = s.value;
    int d = 0;
    for (Size s : strides) t.strides[d++] = s.value;
    return t;
  }

  /// An output that owns its memory together with others that view it.
  coil_tensor owned(coil_tensor view, const Memory& memory) {
    view.owner = coil_retain(memory.owner);
    return view;
  }

  /// On the host, whatever the device.
  template <class T>
  coil_tensor number(coil_dtype dtype, T value) {
    coil_tensor t{};
    t.dtype = dtype;
    t.owner = t.data = coil_alloc(sizeof value);
    if (!t.data) fail(coil_last_error());
    std::memcpy(t.data, &value, sizeof value);
    return t;
  }

  /// A size that the program has computed.
  Size read_number(const void* from) {
    int64_t value;
    get(&value, from, sizeof value);
    return value;
  }

  /// The integer that a tensor of one element holds.
  Size integer(const coil_tensor& t) {
    auto read = [&]<class T>(T v) -> Size {
      get(&v, t.data, sizeof v, t.on_device);
      return v;
    };
    switch (t.dtype) {
      case COIL_I64: return read(int64_t{});
      case COIL_U64: return static_cast<int64_t>(read(uint64_t{}).value);
      case COIL_I32: return read(int32_t{});
      case COIL_U32: return read(uint32_t{});
      case COIL_I16: return read(int16_t{});
      case COIL_U16: return read(uint16_t{});
      case COIL_I8: return read(int8_t{});
      case COIL_U8: return read(uint8_t{});
      case COIL_B8: return read(uint8_t{}).value != 0;
      default: fail("a " + std::string(describe(t.dtype).name) + " tensor was given where an integer is read");
    }
  }

  std::string shape(const coil_tensor& t) {
    std::string out = std::string(describe(t.dtype).short_name) + "[";
    for (int d = 0; d < t.rank; ++d) out += (d ? ", " : "") + std::to_string(t.sizes[d]);
    return out + "]";
  }

  void check_input(const coil_port& port, const coil_tensor& t) {
    const std::string name = std::string("input '") + port.name + "'";
    if (t.dtype != port.dtype)
      fail(name + " is " + describe(t.dtype).name + ", but the program takes " + describe(port.dtype).name);
    if (t.rank != port.rank)
      fail(name + " has " + std::to_string(t.rank) + " dimensions (" + shape(t) + "), but the program takes " +
           std::to_string(port.rank));
    for (int d = 0; d < t.rank; ++d)
      if (t.sizes[d] < 0) fail(name + " has a negative size: " + shape(t));
    if (t.on_device != 0 && t.on_device != on_device)
      fail(name + " lies in memory that the program does not take: its on_device is " + std::to_string(t.on_device));
  }

  void check_sizes(const coil_port& port, const coil_tensor& t, Sizes sizes) {
    int d = 0;
    for (Size size : sizes) {
      if (t.sizes[d] != size.value)
        fail(std::string("input '") + port.name + "' has size " + std::to_string(t.sizes[d]) + " in dimension " +
             std::to_string(d) + ", but the program takes " + std::to_string(size.value) + " (" + shape(t) +
             " was given)");
      ++d;
    }
  }

  /// An input in the layout that kernels assume: the caller's own memory, or a copy where its strides are others or it
  /// lies elsewhere.
  struct Input {
    coil_tensor given, used;
    Memory copy;

    Input(const coil_port& port, const coil_tensor& t, Sizes sizes, Sizes strides)
        : given(t), used(window(t.dtype, t.data, sizes, strides)) {
      check_sizes(port, t, sizes);
      bool empty = false, same = is_readable(t);
      Size last = 0;
      for (int d = 0; d < t.rank; ++d) {
        empty = empty || t.sizes[d] == 0;
        same = same && (t.sizes[d] == 1 || t.strides[d] == used.strides[d]);
        last = last + Size(used.sizes[d] - 1) * used.strides[d];
      }
      if (empty || same) return;
      copy = Memory((last + 1) * describe(t.dtype).bytes);
      used.data = copy.data;
      check(copy_tensor(&used, &given));
    }
    void* data() const { return used.data; }
    void write_back() const {
      if (copy.data.at) check(copy_tensor(&given, &used));
    }
    /// What an output that aliases it owns.
    coil_tensor alias(coil_tensor view) const { return copy.data.at ? owned(view, copy) : view; }
  };

  /// A call site of a library operation.
  class Op {
   public:
    explicit Op(const char* name) : op_(create_op(name)) {
      if (!op_) fail(coil_last_error());
    }
    Op(const Op&) = delete;
    ~Op() { coil_op_destroy(op_); }
    Op& integer(const char* name, int64_t v) { return coil_op_set_int(op_, name, v), *this; }
    Op& real(const char* name, double v) { return coil_op_set_float(op_, name, v), *this; }
    Op& text(const char* name, const char* v) { return coil_op_set_string(op_, name, v), *this; }
    Op& integers(const char* name, std::initializer_list<int64_t> v) {
      return coil_op_set_ints(op_, name, v.begin(), v.size()), *this;
    }
    Op& reals(const char* name, std::initializer_list<double> v) {
      return coil_op_set_floats(op_, name, v.begin(), v.size()), *this;
    }
    Op& texts(const char* name, std::initializer_list<const char*> v) {
      return coil_op_set_strings(op_, name, v.begin(), v.size()), *this;
    }
    void run(std::initializer_list<coil_tensor> inputs, std::initializer_list<coil_tensor> outputs) {
      check(coil_op_run(op_, inputs.begin(), inputs.size(), outputs.begin(), outputs.size()));
    }

   private:
    coil_op* op_;
  };
)cpp";

constexpr const char* kCallsOnCpu = R"cpp(
  void call(coil_kernel kernel, std::initializer_list<void*> buffers, Sizes scalars, Size extent, Size grain) {
    static_assert(sizeof(Size) == sizeof(int64_t));
    coil_parallel_for(kernel, buffers.begin(), reinterpret_cast<const int64_t*>(scalars.begin()), extent.value,
                      grain.value);
  }

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
    /// Runs it and keeps its results: into `told` goes the number that they are kept under, then the sizes asked for,
    /// as pairs of a result and a dimension.
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
)cpp";

constexpr const char* kWeights = R"cpp(
  /// The file of weights: where the caller says, beside this program, beside its source, or in the current folder.
  coil_file* open_weights(const char* given, const char* name) {
    if (given) return coil_file_open(given);
    std::vector<std::string> folders;
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&coil_program_open), &self) && self.dli_fname) folders.push_back(self.dli_fname);
    folders.push_back(__FILE__);
    for (const std::string& file : folders) {
      const std::string path = file.substr(0, file.rfind('/') + 1) + name;
      if (access(path.c_str(), R_OK) == 0) return coil_file_open(path.c_str());
    }
    return coil_file_open(name);
  }

  struct Weights {
    coil_file* file;
    Placed placed;
    explicit Weights(coil_file* f) : file(f) {
      if (!f) fail(coil_last_error());
    }
    Weights(const Weights&) = delete;
    ~Weights() { coil_file_close(file); }
    char* at(const char* name, size_t offset, size_t bytes) {
      coil_tensor t;
      check(coil_file_find(file, name, &t));
      size_t all = describe(t.dtype).bytes;
      for (int d = 0; d < t.rank; ++d) all *= static_cast<size_t>(t.sizes[d]);
      if (all < offset + bytes)
        fail(std::string("the file of weights belongs to another program: '") + name + "' is too short");
      return placed.at(name, static_cast<char*>(t.data), all) + offset;
    }
  };

  /// A new seed for each run of a program that draws random numbers (SplitMix64).
  struct Seeds {
    uint64_t state = 0;
    Seeds() {
      if (getentropy(&state, sizeof state)) fail("the system has no entropy");
    }
    void renew(char* to) {
      uint64_t z = state += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      put(to, &z, sizeof z);
    }
  };

  }  // namespace
)cpp";

constexpr const char* kEntry = R"cpp(
  namespace {

  template <class F>
  int guarded(F&& f) {
    try {
      f();
      return 0;
    } catch (const std::exception& e) {
      coil_set_error(e.what());
      return 1;
    }
  }

  }  // namespace

  extern "C" {

  coil_program* coil_program_open(const char* weights) {
    try {
      return new coil_program(weights);
    } catch (const std::exception& e) {
      coil_set_error(e.what());
      return nullptr;
    }
  }

  void coil_program_close(coil_program* program) { delete program; }

  void coil_program_seed(coil_program* program, uint64_t seed) { program->seeds.state = seed; }

  const coil_port* coil_program_inputs(const coil_program*, size_t* count) {
    *count = input_count;
    return input_ports;
  }

  const coil_port* coil_program_outputs(const coil_program*, size_t* count) {
    *count = output_count;
    return output_ports;
  }

  int coil_program_stay_on_device(coil_program* program, void* stream) {
    return guarded([&] { stay(*program, stream); });
  }

  int coil_program_wait(coil_program* program) {
    return guarded([&] { wait(*program); });
  }

  int coil_program_run(coil_program* program, const coil_tensor* inputs, size_t given, coil_tensor* outputs,
                       size_t wanted) {
    for (size_t i = 0; i < wanted; ++i) outputs[i] = {};
    const int failed = guarded([&] {
      if (given != input_count)
        fail("the program takes " + std::to_string(input_count) + " inputs, but " + std::to_string(given) +
             " were given");
      if (wanted != output_count)
        fail("the program has " + std::to_string(output_count) + " outputs, but room for " + std::to_string(wanted) +
             " was given");
      begin(*program);
      program->run(inputs, outputs);
      finish(*program, outputs);
    });
    for (size_t i = 0; failed && i < wanted; ++i) coil_tensor_release(&outputs[i]);
    return failed;
  }

  }  // extern "C"
)cpp";

constexpr const char* kMain = R"cpp(
#ifdef COIL_MAIN
#include <cstdio>

  namespace {

  void run_files(const char* from, const char* to, const char* weights) {
    coil_program* program = coil_program_open(weights);
    coil_file* file = program ? coil_file_open(from) : nullptr;
    if (!file) fail(coil_last_error());
    std::vector<coil_tensor> inputs(input_count), outputs(output_count);
    size_t found = 0;
    for (size_t i = 0; i < input_count; ++i) {
      inputs[i].dtype = input_ports[i].dtype;
      if (coil_file_find(file, input_ports[i].name, &inputs[i]) == 0)
        ++found;
      else if (!input_ports[i].unused)
        fail(std::string("input ") + input_ports[i].name + " is missing from " + from);
    }
    if (found != coil_file_count(file)) fail(std::string(from) + " has tensors that are no inputs of the program");
    check(coil_program_run(program, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
    std::vector<const char*> names;
    std::vector<coil_tensor> results;
    for (size_t i = 0; i < output_count; ++i) names.push_back(output_ports[i].name), results.push_back(outputs[i]);
    for (size_t i = 0; i < input_count; ++i)
      if (input_ports[i].mutated) names.push_back(input_ports[i].name), results.push_back(inputs[i]);
    check(coil_file_write(to, names.data(), results.data(), names.size()));
    for (coil_tensor& t : outputs) coil_tensor_release(&t);
    coil_file_close(file);
    coil_program_close(program);
  }

  }  // namespace

  int main(int argc, char** argv) {
    if (argc != 3 && argc != 4) {
      std::fprintf(stderr, "usage: %s IN.safetensors OUT.safetensors [WEIGHTS]\n", argv[0]);
      return 2;
    }
    try {
      run_files(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
      return 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "coil: error: %s\n", e.what());
      return 1;
    }
  }
#endif
)cpp";

}  // namespace

std::string cpp_support(Device device) {
  std::string table =
      "struct Dtype {\n  coil_dtype number;\n  int bytes;\n  const char *short_name, *name;\n};\nconstexpr Dtype "
      "dtypes[] = {\n";
#define X(e, short_name, torch, bytes, number, ...) \
  table += fmt::format("    {{static_cast<coil_dtype>({}), {}, \"{}\", \"{}\"}},\n", number, bytes, short_name, torch);
  COIL_DTYPES(X)
#undef X
  return kHead + std::string(sym::cpp_helpers()) + "\n" + table + "};\n" + cpp_primitives(device) + kHelpers +
         (device.type == DeviceType::CPU ? kCallsOnCpu : "") + cpp_memory(device) + kWeights;
}

std::string cpp_entry(Device device) { return cpp_runs(device) + kEntry; }
std::string cpp_main() { return kMain; }

}  // namespace coil::wrapper
