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

/// The width in bytes of the widest elements that the copy can move at once: neighbours that lie side by side on both
/// sides are one.
std::int64_t widest_element(std::span<const Dimension> dimensions, const Tensor& to, const Tensor& from) {
  const auto item = static_cast<std::int64_t>(size_of(to.dtype));
  if (dimensions.empty() || dimensions[0].to != item || dimensions[0].from != item) return item;
  auto fits = [&](std::int64_t width) {
    const auto starts = reinterpret_cast<std::uintptr_t>(to.bytes()) | reinterpret_cast<std::uintptr_t>(from.bytes());
    return starts % static_cast<std::uintptr_t>(width) == 0 && dimensions[0].size * item % width == 0 &&
           std::ranges::all_of(dimensions.subspan(1),
                               [&](const Dimension& d) { return d.to % width == 0 && d.from % width == 0; });
  };
  for (std::int64_t width = 16; width > item; width /= 2)
    if (fits(width)) return width;
  return item;
}

/// Parameters: to, from, elements, rank, then {size, stride of to, stride of from} for each dimension, innermost first.
/// Of fewer than 2^31 elements indices are numbers of 32 bits (`narrow`), which divide in a third of the time.
std::string kernel_text(std::size_t k, std::size_t rank, bool narrow) {
  const char *type = kTypes[k], *word = narrow ? "u32" : "u64";
  const bool pair = k == 4;
  const std::string_view registers = k == 0 || k == 1 ? ".reg .b16 %v;"
                                     : k == 2         ? ".reg .b32 %v;"
                                     : pair           ? ".reg .b64 %va, %vb;"
                                                      : ".reg .b64 %v;";
  const std::string_view value = pair ? "{%va, %vb}" : "%v";
  std::string text = fmt::format(
      ".visible .entry coil_copy_{}{}(.param .u64 to, .param .u64 from, .param .u64 elements, .param .u64 rank, .param "
      ".align 8 .b8 dims[{}])\n"
      "{{\n"
      "  .reg .pred %p; .reg .b32 %block, %blocks, %threads, %thread; {}\n"
      "  .reg .b64 %to, %from, %elements, %rank, %index, %step, %a, %b, %wide, %stride; .reg .{} %rest, %size, %at;\n"
      "  ld.param.u64 %to, [to]; ld.param.u64 %from, [from]; ld.param.u64 %elements, [elements]; ld.param.u64 %rank, "
      "[rank];\n"
      "  cvta.to.global.u64 %to, %to; cvta.to.global.u64 %from, %from;\n"
      "  mov.u32 %block, %ctaid.x; mov.u32 %blocks, %nctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %thread, %tid.x;\n"
      "  mul.wide.u32 %index, %block, %threads; cvt.u64.u32 %wide, %thread; add.u64 %index, %index, %wide;\n"
      "  mul.wide.u32 %step, %blocks, %threads;\n"
      "NEXT:\n"
      "  setp.ge.u64 %p, %index, %elements; @%p bra DONE;\n"
      "  {} %rest, %index; mov.u64 %a, %to; mov.u64 %b, %from;\n",
      1 << k, narrow ? "_narrow" : "", rank * 24, registers, narrow ? "b32" : "b64",
      narrow ? "cvt.u32.u64" : "mov.u64");
  for (std::size_t d = 0; d < rank; ++d)
    text += fmt::format(
        "  setp.le.u64 %p, %rank, {0}; @%p bra MOVE;\n"
        "  ld.param.{4} %size, [dims+{1}]; rem.{4} %at, %rest, %size; div.{4} %rest, %rest, %size; {5} %wide, %at;\n"
        "  ld.param.u64 %stride, [dims+{2}]; mad.lo.u64 %a, %wide, %stride, %a;\n"
        "  ld.param.u64 %stride, [dims+{3}]; mad.lo.u64 %b, %wide, %stride, %b;\n",
        d, d * 24, d * 24 + 8, d * 24 + 16, word, narrow ? "cvt.u64.u32" : "mov.u64");
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
  for (std::size_t k = 0; k < kWidths; ++k)
    for (bool narrow : {false, true}) text += kernel_text(k, kRank, narrow);
  return text;
}

Copier::Copier(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {
  const Driver& d = device_->driver();
  std::string log;
  const std::string text = ptx();
  const Result result = load_module(d, text.c_str(), module_, log);
  if (result != kSuccess)
    fail("{} cannot load the kernel that copies tensors: {} {}", device_->describe(), d.describe(result), log);
  for (std::size_t k = 0; k < kWidths; ++k)
    for (bool narrow : {false, true})
      d.check(d.module_function(&functions_[k][narrow], module_,
                                fmt::format("coil_copy_{}{}", 1 << k, narrow ? "_narrow" : "").c_str()),
              "find a kernel");
}

Copier::~Copier() { device_->driver().module_unload(module_); }

void Copier::copy(const Tensor& to, const Tensor& from, Stream stream) const {
  std::vector<Dimension> dimensions = merged(to, from);
  if (dimensions.size() > kRank)
    fail("a tensor of {} dimensions cannot be copied on {}: {} can", dimensions.size(), device_->describe(), kRank);
  if (to.numel() == 0) return;
  const auto item = static_cast<std::int64_t>(size_of(to.dtype)), width = widest_element(dimensions, to, from);
  if (width > item) dimensions[0] = {dimensions[0].size * item / width, width, width};
  const std::int64_t elements = to.numel() * item / width;
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
  const auto k = static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(width)));
  const bool narrow = elements < (std::int64_t{1} << 31);
  const Driver& d = device_->driver();
  d.check(d.launch(functions_[k][narrow], blocks, 1, 1, kThreads, 1, 1, 0, stream, nullptr, arguments),
          "launch a copy");
}

}  // namespace coil::runtime::cuda
