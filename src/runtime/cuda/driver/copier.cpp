#include "runtime/cuda/driver/copier.h"

#include <algorithm>
#include <bit>

#include "runtime/cuda/driver/modules.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr const char* kTypes[] = {"u8", "u16", "u32", "u64", "v2.u64"};

/// A dimension, strides in bytes.
struct Dimension {
  std::int64_t size, to, from;
};

/// Innermost first, those of one element left out, neighbours merged where both layouts step over them evenly.
std::vector<Dimension> merged(const Tensor& to, const Tensor& from) {
  std::vector<Dimension> out;
  const auto item = static_cast<std::int64_t>(size_of(to.dtype));
  for (std::size_t d = to.sizes.size(); d-- > 0;) {
    const Dimension next{to.sizes[d], to.strides[d] * item, from.strides[d] * item};
    if (next.size == 1) continue;
    if (!out.empty() && next.to == out.back().to * out.back().size && next.from == out.back().from * out.back().size)
      out.back().size *= next.size;
    else
      out.push_back(next);
  }
  return out;
}

/// Parameters: to, from, elements, rank, then {size, stride of to, stride of from} for each dimension, innermost first.
std::string kernel_text(std::size_t k, std::size_t rank) {
  const char* type = kTypes[k];
  const bool pair = k == 4;
  const std::string_view registers = k == 0 || k == 1 ? ".reg .b16 %v;"
                                     : k == 2         ? ".reg .b32 %v;"
                                     : pair           ? ".reg .b64 %va, %vb;"
                                                      : ".reg .b64 %v;";
  const std::string_view value = pair ? "{%va, %vb}" : "%v";
  std::string text = fmt::format(
      ".visible .entry coil_copy_{}(.param .u64 to, .param .u64 from, .param .u64 elements, .param .u64 rank, .param "
      ".align 8 .b8 dims[{}])\n"
      "{{\n"
      "  .reg .pred %p; .reg .b32 %block, %blocks, %threads, %thread; {}\n"
      "  .reg .b64 %to, %from, %elements, %rank, %index, %step, %rest, %a, %b, %size, %at, %stride;\n"
      "  ld.param.u64 %to, [to]; ld.param.u64 %from, [from]; ld.param.u64 %elements, [elements]; ld.param.u64 %rank, "
      "[rank];\n"
      "  cvta.to.global.u64 %to, %to; cvta.to.global.u64 %from, %from;\n"
      "  mov.u32 %block, %ctaid.x; mov.u32 %blocks, %nctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %thread, %tid.x;\n"
      "  mul.wide.u32 %index, %block, %threads; cvt.u64.u32 %at, %thread; add.u64 %index, %index, %at;\n"
      "  mul.wide.u32 %step, %blocks, %threads;\n"
      "NEXT:\n"
      "  setp.ge.u64 %p, %index, %elements; @%p bra DONE;\n"
      "  mov.u64 %rest, %index; mov.u64 %a, %to; mov.u64 %b, %from;\n",
      1 << k, rank * 24, registers);
  for (std::size_t d = 0; d < rank; ++d)
    text += fmt::format(
        "  setp.le.u64 %p, %rank, {0}; @%p bra MOVE;\n"
        "  ld.param.u64 %size, [dims+{1}]; rem.u64 %at, %rest, %size; div.u64 %rest, %rest, %size;\n"
        "  ld.param.u64 %stride, [dims+{2}]; mad.lo.u64 %a, %at, %stride, %a;\n"
        "  ld.param.u64 %stride, [dims+{3}]; mad.lo.u64 %b, %at, %stride, %b;\n",
        d, d * 24, d * 24 + 8, d * 24 + 16);
  text += fmt::format(
      "MOVE:\n"
      "  ld.global.{0} {1}, [%b]; st.global.{0} [%a], {1};\n"
      "  add.u64 %index, %index, %step; bra NEXT;\n"
      "DONE:\n"
      "  ret;\n"
      "}}\n",
      type, value);
  return text;
}

}  // namespace

std::string Copier::ptx() {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (std::size_t k = 0; k < 5; ++k) text += kernel_text(k, kRank);
  return text;
}

Copier::Copier(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {
  const Driver& d = device_->driver();
  std::string log;
  const std::string text = ptx();
  const Result result = load_module(d, text.c_str(), module_, log);
  if (result != kSuccess)
    fail("{} cannot load the kernel that copies tensors: {} {}", device_->describe(), d.describe(result), log);
  for (std::size_t k = 0; k < 5; ++k)
    d.check(d.module_function(&functions_[k], module_, fmt::format("coil_copy_{}", 1 << k).c_str()), "find a kernel");
}

Copier::~Copier() { device_->driver().module_unload(module_); }

void Copier::copy(const Tensor& to, const Tensor& from, Stream stream) const {
  const std::vector<Dimension> dimensions = merged(to, from);
  if (dimensions.size() > kRank)
    fail("a tensor of {} dimensions cannot be copied on {}: {} can", dimensions.size(), device_->describe(), kRank);
  const std::int64_t elements = to.numel();
  if (elements == 0) return;
  std::uint64_t words[4 + 3 * kRank] = {reinterpret_cast<std::uint64_t>(to.bytes()),
                                        reinterpret_cast<std::uint64_t>(from.bytes()),
                                        static_cast<std::uint64_t>(elements), dimensions.size()};
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    words[4 + 3 * d] = static_cast<std::uint64_t>(dimensions[d].size);
    words[5 + 3 * d] = static_cast<std::uint64_t>(dimensions[d].to);
    words[6 + 3 * d] = static_cast<std::uint64_t>(dimensions[d].from);
  }
  std::size_t bytes = sizeof words;
  void* arguments[] = {kLaunchBuffer, words, kLaunchBufferSize, &bytes, kLaunchEnd};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((elements + kThreads - 1) / kThreads, 1 << 14));
  const std::size_t k = static_cast<std::size_t>(std::countr_zero(size_of(to.dtype)));
  const Driver& d = device_->driver();
  d.check(d.launch(functions_[k], blocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, arguments), "launch a copy");
}

}  // namespace coil::runtime::cuda
