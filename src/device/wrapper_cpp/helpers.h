// Memory, views, inputs and library operations of a program written as C++.
#pragma once
#include "head.h"

// @piece helpers
namespace {

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

/// Memory from the runtime's pool, given back when this goes out of scope. Of watched programs on the CPU it holds NaN
/// before something is written to it and after it was freed, and ends in a guard.
struct Memory {
  static constexpr bool filled = watched && !on_device;
  static constexpr size_t guard = filled ? 64 : 0;
  Address data;
  void* owner = nullptr;  ///< for coil_retain and coil_free
  size_t bytes = 0;
  bool handed_on = false;
  Memory() = default;
  explicit Memory(Size size, int16_t where = on_device) : bytes(static_cast<size_t>(size.value)) {
    if (size < 0) fail("a buffer would have a negative size");
    data.at = allocate(bytes + guard, owner, where);
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
        if (data.at[i] != static_cast<char>(0xff)) fail("lifetimes: something was written behind the end of a buffer");
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
coil_tensor window(coil_dtype dtype, void* data, Sizes sizes, Sizes strides, Size offset = 0,
                   int16_t where = on_device) {
  coil_tensor t{};
  t.data = static_cast<char*>(data) + (offset * describe(dtype).bytes).value;
  t.dtype = dtype;
  t.on_device = where;
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
template <class T> coil_tensor number(coil_dtype dtype, T value) {
  coil_tensor t{};
  t.dtype = dtype;
  t.owner = t.data = coil_alloc(sizeof value);
  if (!t.data) fail(coil_last_error());
  std::memcpy(t.data, &value, sizeof value);
  return t;
}

/// A size that the program has computed.
Size read_number(const void* from, int16_t where = on_device) {
  int64_t value;
  get(&value, from, sizeof value, where);
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

/// `where` the program takes it; memory of the host is taken everywhere.
void check_input(const coil_port& port, const coil_tensor& t, int16_t where = on_device) {
  const std::string name = std::string("input '") + port.name + "'";
  if (t.dtype != port.dtype)
    fail(name + " is " + describe(t.dtype).name + ", but the program takes " + describe(port.dtype).name);
  if (t.rank != port.rank)
    fail(name + " has " + std::to_string(t.rank) + " dimensions (" + shape(t) + "), but the program takes " +
         std::to_string(port.rank));
  for (int d = 0; d < t.rank; ++d)
    if (t.sizes[d] < 0) fail(name + " has a negative size: " + shape(t));
  if (t.on_device != on_host && t.on_device != where)
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

  Input(const coil_port& port, const coil_tensor& t, Sizes sizes, Sizes strides, int16_t where = on_device)
      : given(t), used(window(t.dtype, t.data, sizes, strides, 0, where)) {
    check_sizes(port, t, sizes);
    bool empty = false, same = is_readable(t, where);
    Size last = 0;
    for (int d = 0; d < t.rank; ++d) {
      empty = empty || t.sizes[d] == 0;
      same = same && (t.sizes[d] == 1 || t.strides[d] == used.strides[d]);
      last = last + Size(used.sizes[d] - 1) * used.strides[d];
    }
    if (empty || same) return;
    copy = Memory((last + 1) * describe(t.dtype).bytes, where);
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
  explicit Op(const char* name) : Op(create_op(name)) {}
  explicit Op(coil_op* made) : op_(made) {
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

}  // namespace
