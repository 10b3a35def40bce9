#include "frontend/pickle.h"

#include <bit>
#include <charconv>

#include "support/error.h"

namespace coil::frontend {

namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxValues = 1'000'000;

/// The opcodes of protocols 2 to 5 that pickles of tensors, numbers and containers use (CPython's pickletools).
// clang-format off
enum Opcode : unsigned char {
  kMark = '(', kStop = '.', kPop = '0', kPopMark = '1', kDup = '2',
  kBinFloat = 'G', kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = 0x8a, kLong4 = 0x8b,
  kNone = 'N', kTrue = 0x88, kFalse = 0x89,
  kBinString = 'T', kShortBinString = 'U', kBinUnicode = 'X', kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d,
  kBinBytes = 'B', kShortBinBytes = 'C', kBinBytes8 = 0x8e,
  kEmptyTuple = ')', kTuple = 't', kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87,
  kEmptyList = ']', kAppend = 'a', kAppends = 'e', kList = 'l',
  kEmptyDict = '}', kSetItem = 's', kSetItems = 'u', kDict = 'd',
  kEmptySet = 0x8f, kAddItems = 0x90, kFrozenSet = 0x91,
  kGet = 'h', kLongGet = 'j', kPut = 'q', kLongPut = 'r', kMemoize = 0x94,
  kGlobal = 'c', kStackGlobal = 0x93, kReduce = 'R', kBuild = 'b', kNewObj = 0x81, kNewObjEx = 0x92,
  kPersistentId = 'Q',
  kProto = 0x80, kFrame = 0x95,
};
// clang-format on

/// The element type of `torch.FloatStorage` and its like; nothing for other names. Untyped storages count bytes.
std::optional<DType> storage_dtype(std::string_view global) {
  static const std::map<std::string_view, DType> names{
      {"Double", DType::F64}, {"Float", DType::F32}, {"Half", DType::F16},         {"BFloat16", DType::BF16},
      {"Long", DType::I64},   {"Int", DType::I32},   {"Short", DType::I16},        {"Char", DType::I8},
      {"Byte", DType::U8},    {"Bool", DType::Bool}, {"ComplexFloat", DType::C64}, {"ComplexDouble", DType::C128},
      {"Untyped", DType::U8}};
  constexpr std::string_view kSuffix = "Storage";
  for (std::string_view module : {"torch.", "torch.storage.", "torch.cuda."}) {
    if (!global.starts_with(module) || !global.ends_with(kSuffix)) continue;
    const auto it = names.find(global.substr(
        module.size(), std::max(global.size(), module.size() + kSuffix.size()) - module.size() - kSuffix.size()));
    if (it != names.end()) return it->second;
  }
  return {};
}

}  // namespace

class Unpickler {
 public:
  Unpickler(const Archive& archive, std::string prefix)
      : archive_(archive), prefix_(std::move(prefix)), program_(archive.read(prefix_ + "data.pkl")) {}

  Pickle run() {
    try {
      while (step()) {}
    } catch (const Error& e) {
      fail("malformed pickle at byte {}: {}", at_, e.what());
    }
    return std::move(pickle_);
  }

 private:
  // The program.
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > program_.size - at_) fail("it is truncated");
    const auto part = program_.span().subspan(at_, n);
    at_ += n;
    return part;
  }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t v = 0;
    const auto part = take(bytes);
    for (std::size_t i = bytes; i-- > 0;) v = v << 8 | static_cast<std::uint64_t>(part[i]);
    return v;
  }
  std::string text(std::uint64_t n) {
    const auto part = take(n);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    const auto rest = program_.text().substr(at_);
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) fail("it is truncated");
    at_ += end + 1;
    return std::string(rest.substr(0, end));
  }

  // The stack.
  PickleValue* make(Kind kind) {
    if (pickle_.values_.size() >= kMaxValues) fail("more than {} values", kMaxValues);
    auto& value = pickle_.values_.emplace_back(std::make_unique<PickleValue>());
    value->kind = kind;
    return value.get();
  }
  PickleValue* push(Kind kind) {
    stack_.push_back(make(kind));
    return stack_.back();
  }
  PickleValue* pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) fail("its stack is empty");
    PickleValue* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue* top() {
    PickleValue* value = pop();
    stack_.push_back(value);
    return value;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) fail("it has no mark");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  void tuple_of(std::size_t n) {
    std::vector<const PickleValue*> items(n);
    while (n-- > 0) items[n] = pop();
    push(Kind::Tuple)->items = std::move(items);
  }
  void extend(Kind kind, std::vector<const PickleValue*> items) {
    PickleValue* target = top();
    // Subclasses of list and dict (OrderedDict) are filled the same way.
    if (target->kind != kind && target->kind != Kind::Object) fail("items are added to what is no container");
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  /// A short pickle may ask for a long list to be copied again and again; there is an end to it.
  void copy_items(const PickleValue& from, PickleValue* to) {
    copied_ += from.items.size();
    if (copied_ > kMaxValues) fail("more than {} values", kMaxValues);
    to->items.insert(to->items.end(), from.items.begin(), from.items.end());
  }
  void memoize(std::uint64_t index) {
    if (index > program_.size) fail("memo index {} is out of range", index);
    if (memo_.size() <= index) memo_.resize(index + 1);
    memo_[index] = top();
  }
  void recall(std::uint64_t index) {
    if (index >= memo_.size() || !memo_[index]) fail("memo {} is not set", index);
    stack_.push_back(memo_[index]);
  }
  void push_string(std::uint64_t n) { push(Kind::String)->text = text(n); }
  void push_int(std::int64_t v) { push(Kind::Int)->integer = v; }
  void push_long(std::uint64_t bytes) {
    if (bytes > 8) fail("an integer does not fit in 64 bits");
    std::uint64_t v = number(bytes);
    if (bytes > 0 && bytes < 8 && (v >> (8 * bytes - 1) & 1) != 0) v |= ~std::uint64_t{0} << (8 * bytes);
    push_int(static_cast<std::int64_t>(v));
  }

  /// Whether there is more behind this one. Each family of opcodes says whether it has this one.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == kStop) {
      pickle_.root_ = pop();
      return false;
    }
    if (!frame(code) && !value(code) && !container(code) && !memo(code) && !object(code))
      fail("opcode 0x{:02x} is not supported", code);
    return true;
  }

  /// How the file is cut, and what moves values on the stack.
  bool frame(unsigned char op) {
    switch (op) {
      case kProto:
        if (const auto version = number(1); version < 2 || version > 5) fail("protocol {} is not supported", version);
        return true;
      case kFrame: take(8); return true;
      case kMark: marks_.push_back(stack_.size()); return true;
      case kPop:
        if (!marks_.empty() && marks_.back() == stack_.size())
          marks_.pop_back();
        else
          pop();
        return true;
      case kPopMark: pop_to_mark(); return true;
      case kDup: stack_.push_back(top()); return true;
      default: return false;
    }
  }

  /// Numbers and texts.
  bool value(unsigned char op) {
    switch (op) {
      case kNone: push(Kind::None); return true;
      case kTrue: push(Kind::Bool)->integer = 1; return true;
      case kFalse: push(Kind::Bool); return true;
      case kBinFloat: {
        const auto bytes = take(8);
        std::uint64_t v = 0;
        for (std::byte b : bytes) v = v << 8 | static_cast<std::uint64_t>(b);
        push(Kind::Float)->real = std::bit_cast<double>(v);
        return true;
      }
      case kBinInt: push_int(static_cast<std::int32_t>(number(4))); return true;
      case kBinInt1: push_int(static_cast<std::int64_t>(number(1))); return true;
      case kBinInt2: push_int(static_cast<std::int64_t>(number(2))); return true;
      case kLong1: push_long(number(1)); return true;
      case kLong4: push_long(number(4)); return true;
      case kShortBinString:
      case kShortBinUnicode:
      case kShortBinBytes: push_string(number(1)); return true;
      case kBinString:
      case kBinUnicode:
      case kBinBytes: push_string(number(4)); return true;
      case kBinUnicode8:
      case kBinBytes8: push_string(number(8)); return true;
      default: return false;
    }
  }

  /// Tuples, lists, dictionaries and sets.
  bool container(unsigned char op) {
    switch (op) {
      case kEmptyTuple: push(Kind::Tuple); return true;
      case kEmptyList: push(Kind::List); return true;
      case kEmptyDict: push(Kind::Dict); return true;
      case kEmptySet: push(Kind::Set); return true;
      case kTuple: gather(Kind::Tuple); return true;
      case kTuple1: tuple_of(1); return true;
      case kTuple2: tuple_of(2); return true;
      case kTuple3: tuple_of(3); return true;
      case kList: gather(Kind::List); return true;
      case kDict: gather(Kind::Dict); return true;
      case kFrozenSet: gather(Kind::Set); return true;
      case kAppend: extend(Kind::List, {pop()}); return true;
      case kAppends: extend(Kind::List, pop_to_mark()); return true;
      case kAddItems: extend(Kind::Set, pop_to_mark()); return true;
      case kSetItem: {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        extend(Kind::Dict, {key, value});
        return true;
      }
      case kSetItems: {
        auto items = pop_to_mark();
        if (items.size() % 2 != 0) fail("a key without a value");
        extend(Kind::Dict, std::move(items));
        return true;
      }
      default: return false;
    }
  }

  /// Values that are met again.
  bool memo(unsigned char op) {
    switch (op) {
      case kGet: recall(number(1)); return true;
      case kLongGet: recall(number(4)); return true;
      case kPut: memoize(number(1)); return true;
      case kLongPut: memoize(number(4)); return true;
      case kMemoize: memoize(memo_.size()); return true;
      default: return false;
    }
  }

  /// Names of Python, and what is made by them.
  bool object(unsigned char op) {
    switch (op) {
      case kGlobal: {
        std::string module = line();
        push(Kind::Global)->text = module + "." + line();
        return true;
      }
      case kStackGlobal: {
        const PickleValue* name = expect(pop(), Kind::String, "a name");
        const PickleValue* module = expect(pop(), Kind::String, "a module");
        push(Kind::Global)->text = module->text + "." + name->text;
        return true;
      }
      case kReduce: {
        const PickleValue* arguments = pop();
        const PickleValue* function = pop();
        stack_.push_back(reduce(*function, *arguments));
        return true;
      }
      case kNewObj: {
        const PickleValue* arguments = pop();
        stack_.push_back(construct(*pop(), *arguments));
        return true;
      }
      case kNewObjEx: {
        pop();  // keyword arguments: opaque like all state
        const PickleValue* arguments = pop();
        stack_.push_back(construct(*pop(), *arguments));
        return true;
      }
      case kBuild: {
        const PickleValue* state = pop();
        if (PickleValue* object = top(); object->is(Kind::Object)) object->state = state;
        return true;
      }
      case kPersistentId: {
        const PickleValue* id = pop();
        stack_.push_back(load_storage(*id));
        return true;
      }
      default: return false;
    }
  }

  void gather(Kind kind) {
    auto items = pop_to_mark();
    if (kind == Kind::Dict && items.size() % 2 != 0) fail("a key without a value");
    push(kind)->items = std::move(items);
  }

  // What the few functions with a meaning make.
  static const PickleValue* expect(const PickleValue* value, Kind kind, std::string_view what) {
    if (!value->is(kind)) fail("expected {}", what);
    return value;
  }
  static Sizes sizes(const PickleValue& tuple) {
    Sizes result;
    if (!tuple.is(Kind::Tuple) && !tuple.is(Kind::List)) fail("expected a tuple of integers");
    for (const PickleValue* v : tuple.items) result.push_back(expect(v, Kind::Int, "an integer")->integer);
    return result;
  }

  PickleValue* construct(const PickleValue& type, const PickleValue& arguments) {
    expect(&type, Kind::Global, "a class");
    PickleValue* object = make(Kind::Object);
    object->text = type.text;
    copy_items(arguments, object);
    return object;
  }

  PickleValue* reduce(const PickleValue& function, const PickleValue& arguments) {
    expect(&function, Kind::Global, "a function");
    expect(&arguments, Kind::Tuple, "arguments");
    const auto& args = arguments.items;
    const std::string& name = function.text;
    auto need = [&](std::size_t n) {
      if (args.size() < n) fail("{} needs {} arguments, it has {}", name, n, args.size());
    };
    if (name == "torch._utils._rebuild_tensor_v2") {
      need(4);
      return rebuild_tensor(args, {});
    }
    if (name == "torch._utils._rebuild_tensor_v3") {
      need(7);
      return rebuild_tensor(args, dtype_of(*args[6]));
    }
    if (name == "torch._tensor._rebuild_from_type_v2") {  // (function, class, its arguments, attributes): a tensor with
                                                          // attributes of its own, such as dynamic dimensions
      need(3);
      const PickleValue &rebuild = *expect(args[0], Kind::Global, "a function"),
                        &type = *expect(args[1], Kind::Global, "a class");
      const bool plain = type.text == "torch.Tensor" || type.text == "torch._tensor.Tensor" ||
                         type.text == "torch.nn.parameter.Parameter";
      if (plain && rebuild.text.starts_with("torch._utils._rebuild_")) return reduce(rebuild, *args[2]);
    }
    if (name == "torch._utils._rebuild_parameter" || name == "torch._utils._rebuild_parameter_with_state") {
      need(1);
      PickleValue* tensor = make(Kind::Tensor);
      tensor->tensor = expect(args[0], Kind::Tensor, "a tensor")->tensor;
      return tensor;
    }
    if (name == "torch.Size" || name == "builtins.tuple" || name == "builtins.list") {
      PickleValue* list = make(name == "builtins.list" ? Kind::List : Kind::Tuple);
      if (!args.empty()) copy_items(*args[0], list);
      return list;
    }
    if (name == "builtins.set" || name == "builtins.frozenset") {
      PickleValue* set = make(Kind::Set);
      if (!args.empty()) copy_items(*args[0], set);
      return set;
    }
    if (name == "collections.OrderedDict") {
      PickleValue* dict = make(Kind::Dict);
      if (!args.empty())
        for (const PickleValue* pair : args[0]->items) {
          if (pair->items.size() != 2) fail("an OrderedDict of what are no pairs");
          copy_items(*pair, dict);
        }
      return dict;
    }
    if (name == "collections.defaultdict" || name == "builtins.dict") return make(Kind::Dict);
    if (name.starts_with("torch._utils._rebuild_") || name.starts_with("torch._tensor._rebuild_"))
      fail("tensors made by {} (subclasses, quantized, sparse) are not supported", name);
    return construct(function, arguments);
  }

  static DType dtype_of(const PickleValue& global) {
    constexpr std::string_view kTorch = "torch.";
    const auto dtype = global.is(Kind::Global) && global.text.starts_with(kTorch)
                           ? dtype_from_torch_name(std::string_view(global.text).substr(kTorch.size()))
                           : std::nullopt;
    if (!dtype) fail("unknown dtype {}", global.text);
    return *dtype;
  }

  PickleValue* rebuild_tensor(const std::vector<const PickleValue*>& args, std::optional<DType> dtype) {
    const PickleValue& storage = *expect(args[0], Kind::Storage, "a storage");
    PickleValue* value = make(Kind::Tensor);
    Tensor& t = value->tensor;
    t.storage = storage.tensor.storage;
    t.dtype = dtype.value_or(storage.tensor.dtype);
    t.offset = expect(args[1], Kind::Int, "an offset")->integer;
    t.sizes = sizes(*args[2]);
    t.strides = sizes(*args[3]);
    if (t.sizes.size() != t.strides.size())
      fail("a tensor of {} sizes and {} strides", t.sizes.size(), t.strides.size());
    if (t.offset < 0) fail("a tensor at a negative offset");
    t.check_bounds();
    return value;
  }

  /// `('storage', torch.FloatStorage, '0', 'cpu', 24)`: the bytes lie in the entry `data/0`.
  PickleValue* load_storage(const PickleValue& id) {
    if (!id.is(Kind::Tuple) || id.items.size() < 5 || expect(id.items[0], Kind::String, "a string")->text != "storage")
      fail("an unknown kind of persistent id");
    const PickleValue& type = *id.items[1];
    const auto dtype = storage_dtype(type.text);
    if (!type.is(Kind::Global) || !dtype) fail("storage type '{}' is not supported", type.text);
    const std::string& key = expect(id.items[2], Kind::String, "a key")->text;
    PickleValue* value = make(Kind::Storage);
    value->tensor.dtype = *dtype;
    auto [it, added] = storages_.try_emplace(key);
    if (added) {
      const Bytes bytes = archive_.map(prefix_ + "data/" + key);
      it->second = {bytes.data, bytes.size};
      if (reinterpret_cast<std::uintptr_t>(bytes.data.get()) % 16 != 0) {
        it->second = Storage::allocate(bytes.size);
        if (bytes.size > 0) std::memcpy(it->second.data.get(), bytes.data.get(), bytes.size);
      }
    }
    value->tensor.storage = it->second;
    const std::int64_t count = expect(id.items[4], Kind::Int, "a count")->integer;
    if (count < 0 || static_cast<std::uint64_t>(count) > it->second.bytes / size_of(*dtype))
      fail("storage {} has {} bytes, fewer than its {} elements need", key, it->second.bytes, count);
    value->tensor.sizes = {count};
    value->tensor.strides = {1};
    return value;
  }

  const Archive& archive_;
  std::string prefix_;
  Bytes program_;
  std::size_t at_ = 0, copied_ = 0;
  Pickle pickle_;
  std::vector<PickleValue*> stack_, memo_;
  std::vector<std::size_t> marks_;
  std::map<std::string, Storage> storages_;
};

Pickle Pickle::read_torch_save(const Archive& archive) {
  constexpr std::string_view kProgram = "data.pkl";
  for (const std::string& name : archive.names()) {
    if (name != kProgram && !name.ends_with("/data.pkl")) continue;
    const std::string prefix = name.substr(0, name.size() - kProgram.size());
    if (archive.contains(prefix + "byteorder") && archive.read(prefix + "byteorder").text() != "little")
      fail("big-endian tensors are not supported");
    return Unpickler(archive, prefix).run();
  }
  fail("it holds no data.pkl");
}

}  // namespace coil::frontend
