#include "runtime/ops/onednn/primitive.h"
#include "runtime/ops/onednn/onednn.h"

#ifdef COIL_HAVE_ONEDNN
#include <cstring>
#include <map>
#include <string_view>

#include "runtime/device/convert.h"
#include "runtime/views/strided_copy.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime::onednn {
namespace {

constexpr Staging::Operand kOwn = static_cast<Staging::Operand>(-1);  // memory that the call itself holds

const dnnl::stream& stream() {
  static const dnnl::stream s(engine());
  return s;
}

void check(dnnl_status_t status) {
  if (status != dnnl_success) fail("oneDNN could not run an operation (status {})", static_cast<int>(status));
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("onednn-{}.{}.{}:", v->major, v->minor, v->patch);
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

bool is_float16_or_32(DType d) { return d == DType::F32 || d == DType::BF16 || d == DType::F16; }

bool multiplies_bf16() {
  static const bool does = machine_runs("amx-bf16") || (machine_runs("avx512bf16") && !halves_bf16_products());
  return does;
}

DType product_type(DType a, DType b) {
  return multiplies_bf16() && a == DType::BF16 && b == DType::BF16 ? DType::BF16 : DType::F32;
}

dnnl::memory::data_type data_type(DType d) {
  switch (d) {
    case DType::F32: return dnnl::memory::data_type::f32;
    case DType::BF16: return dnnl::memory::data_type::bf16;
    default: COIL_CHECK(false, "oneDNN does not compute on {}", short_name(d));
  }
}

dnnl::memory::desc describe(const BoundView& v) {
  dnnl::memory::dims dims = v.sizes, strides = v.strides;
  if (dims.empty()) return {{1}, data_type(v.dtype), dnnl::memory::dims{1}};
  std::int64_t dense = 1;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (strides[d] == 0) dims[d] = 1;
    if (dims[d] == 1) strides[d] = dense;
    dense = std::max(dense, strides[d] * dims[d]);
  }
  return {dims, data_type(v.dtype), strides};
}

dnnl::memory::desc describe_exactly(const BoundView& v) { return {v.sizes, data_type(v.dtype), v.strides}; }

dnnl::primitive_attr attributes(const std::vector<PostOp>& post, const std::vector<dnnl::memory::desc>& operands) {
  using A = dnnl::algorithm;
  dnnl::post_ops ops;
  std::size_t operand = 0;
  std::map<A, std::pair<double, double>> numbers;
  auto eltwise = [&](A algorithm, double a = 0, double b = 0) {
    // oneDNN 2.6 keeps one set of numbers for each algorithm and would use it for both; the plain loops take over.
    if (numbers.emplace(algorithm, std::pair(a, b)).first->second != std::pair(a, b))
      throw dnnl::error(dnnl_unimplemented, "two post-operations of one algorithm");
    ops.append_eltwise(1.f, algorithm, static_cast<float>(a), static_cast<float>(b));
  };
  for (const PostOp& op : post) {
    switch (op.kind) {
      case PostOp::Kind::Relu: eltwise(A::eltwise_relu); break;
      case PostOp::Kind::GeluErf: eltwise(A::eltwise_gelu_erf); break;
      case PostOp::Kind::GeluTanh: eltwise(A::eltwise_gelu_tanh); break;
      case PostOp::Kind::Silu: eltwise(A::eltwise_swish, 1); break;
      case PostOp::Kind::Sigmoid: eltwise(A::eltwise_logistic); break;
      case PostOp::Kind::Tanh: eltwise(A::eltwise_tanh); break;
      case PostOp::Kind::Clip: eltwise(A::eltwise_clip, op.a, op.b); break;
      case PostOp::Kind::HardSwish: eltwise(A::eltwise_hardswish); break;
      case PostOp::Kind::HardSigmoid:
        eltwise(A::eltwise_linear, 1.0 / 6, 0.5);
        eltwise(A::eltwise_clip, 0, 1);
        break;
      case PostOp::Kind::Elu: eltwise(A::eltwise_elu, op.a); break;
      case PostOp::Kind::LeakyRelu: eltwise(A::eltwise_relu, op.a); break;
      case PostOp::Kind::Scale: eltwise(A::eltwise_linear, op.a, op.b); break;
      case PostOp::Kind::Add: ops.append_binary(A::binary_add, operands.at(operand++)); break;
      case PostOp::Kind::Mul: ops.append_binary(A::binary_mul, operands.at(operand++)); break;
      case PostOp::Kind::Sum: ops.append_sum(1.f); break;
    }
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::vector<int> operand_arguments(const std::vector<PostOp>& post) {
  std::vector<int> arguments;
  int place = 0;
  for (const PostOp& op : post) {
    if (op.takes_operand()) arguments.push_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(place) | DNNL_ARG_SRC_1);
    place += op.kind == PostOp::Kind::HardSigmoid ? 2 : 1;
  }
  return arguments;
}

std::string desc_to_text(const dnnl::memory::desc& desc) {
  unsigned char bytes[sizeof desc.data];
  std::memcpy(bytes, &desc.data, sizeof bytes);
  std::string text = version();
  for (unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

dnnl::memory::desc desc_from_text(const std::string& text) {
  const std::string expected = version();
  if (!text.starts_with(expected))
    fail("a weight was packed by {}, but this runtime has {}; compile the model again with this version",
         text.substr(0, text.find(':')), expected.substr(0, expected.size() - 1));
  dnnl::memory::desc desc;
  unsigned char bytes[sizeof desc.data];
  const std::string_view hex = std::string_view(text).substr(expected.size());
  if (hex.size() != 2 * sizeof bytes) fail("the description of a packed weight is damaged");
  auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  for (std::size_t i = 0; i < sizeof bytes; ++i)
    bytes[i] = static_cast<unsigned char>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  std::memcpy(&desc.data, bytes, sizeof bytes);
  return desc;
}

std::unique_ptr<PreparedCall> attempt(DType type, bool packed,
                                      const std::function<std::unique_ptr<PreparedCall>(DType)>& make) {
  auto made = [&](DType t) -> std::unique_ptr<PreparedCall> {
    try {
      return make(t);
    } catch (const dnnl::error&) {
      return nullptr;
    }
  };
  if (auto call = made(type)) return call;
  if (packed) fail("this machine cannot use a weight packed as {}; compile the model for it", short_name(type));
  return type == DType::F32 ? nullptr : made(DType::F32);
}

bool is_reference(const char* implementation) {
  return std::string_view(implementation).find("ref") != std::string_view::npos;
}

Tensor widened(const Tensor& t) {
  Tensor wide = Tensor::empty(DType::F32, {layout_span(t.sizes, t.strides)});
  wide.sizes = t.sizes;
  wide.strides = t.strides;
  convert({DType::F32, wide.sizes, wide.strides}, wide.bytes(), {t.dtype, t.sizes, t.strides}, t.bytes());
  return wide;
}

namespace {

/// Whether a form is larger than its elements.
bool has_gaps(const dnnl::memory::desc& form) {
  std::size_t bytes = dnnl::memory::data_type_size(form.data_type());
  for (const dnnl::memory::dim size : form.dims()) bytes *= static_cast<std::size_t>(size);
  return form.get_size() != bytes;
}

}  // namespace

Packed pack(const Tensor& value, const dnnl::memory::desc& plain, const dnnl::memory::desc& packed) {
  Packed result;
  result.bytes = Tensor::empty(DType::U8, {static_cast<std::int64_t>(packed.get_size())});
  const dnnl::reorder reorder(dnnl::reorder::primitive_desc(engine(), plain, engine(), packed));
  result.fill = [reorder, value, plain, packed, bytes = result.bytes] {
    // Gaps between rows are zero, so that a package's bytes are always the same.
    if (has_gaps(packed)) std::memset(bytes.bytes(), 0, packed.get_size());
    dnnl::memory from(plain, engine(), value.bytes()), to(packed, engine(), bytes.bytes());
    dnnl::stream s(engine());
    reorder.execute(s, from, to);
    s.wait();
  };
  result.attributes["packed_desc"] = desc_to_text(packed);
  return result;
}

std::size_t PrimitiveCall::bind(const dnnl::memory::desc& desc, Staging::Operand operand) {
  bound_.push_back({dnnl::memory(desc, engine(), DNNL_MEMORY_NONE), operand});
  return bound_.size() - 1;
}

void PrimitiveCall::add(int argument, const dnnl::memory::desc& desc, Staging::Operand operand) {
  arguments_.push_back({argument, bound_[bind(desc, operand)].memory.get()});
}

void PrimitiveCall::add_repacked(int argument, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted,
                                 Staging::Operand operand) {
  const std::size_t from = bind(given, operand), to = bind(wanted, kOwn);
  repacked_.push_back(std::make_unique<Storage>(Storage::allocate(wanted.get_size())));
  point(bound_[to], repacked_.back()->data.get());
  before_.push_back({dnnl::reorder(bound_[from].memory, bound_[to].memory), from, to, true, false});
  arguments_.push_back({argument, bound_[to].memory.get()});
}

void PrimitiveCall::add_reordered(int argument, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted,
                                  Staging::Operand operand, Staging::Operand scratch) {
  const std::size_t from = bind(given, operand), to = bind(wanted, scratch);
  before_.push_back({dnnl::reorder(bound_[from].memory, bound_[to].memory), from, to, false, false});
  arguments_.push_back({argument, bound_[to].memory.get()});
}

void PrimitiveCall::add_reordered_result(int argument, const dnnl::memory::desc& wanted,
                                         const dnnl::memory::desc& given, Staging::Operand scratch,
                                         Staging::Operand operand, bool load) {
  const std::size_t from = bind(wanted, scratch), to = bind(given, operand);
  if (load) before_.push_back({dnnl::reorder(bound_[to].memory, bound_[from].memory), to, from, false, false});
  after_.push_back({dnnl::reorder(bound_[from].memory, bound_[to].memory), from, to, false, false});
  arguments_.push_back({argument, bound_[from].memory.get()});
}

void PrimitiveCall::point(Bound& b, void* pointer) {
  // Only when it moved: setting a handle clears the padding of packed weights, which constants need once.
  if (b.pointer == pointer) return;
  check(dnnl_memory_set_data_handle(b.memory.get(), pointer));
  b.pointer = pointer;
}

void PrimitiveCall::reorder(Reorder& r) {
  if (r.done) return;
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, bound_[r.from].memory.get()},
                                       {DNNL_ARG_TO, bound_[r.to].memory.get()}};
  check(dnnl_primitive_execute(r.primitive.get(), stream().get(), 2, arguments));
  r.done = r.once;
}

void PrimitiveCall::run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) {
  pointers_.resize(staging_.operands());
  staging_.load(inputs, outputs, workspace, pointers_);
  for (Bound& b : bound_)
    if (b.operand != kOwn) point(b, pointers_[b.operand]);
  for (Reorder& r : before_) reorder(r);
  check(
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data()));
  for (Reorder& r : after_) reorder(r);
  staging_.store(outputs, pointers_);
}

}  // namespace coil::runtime::onednn
#else

namespace coil::runtime::onednn {

bool multiplies_bf16() { return false; }

}  // namespace coil::runtime::onednn
#endif
