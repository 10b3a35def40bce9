// The backend: each group of operations becomes a function of C, whose loops are those of its nest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/loop_language.h"
#include "prelude_text.h"
#include "support/error.h"
#include "sym/print.h"
#include "toy.h"

namespace toy {
namespace {

using namespace coil;

/// Operations by their names in ir/scalar.h that are functions `t_…` of prelude.h.
constexpr std::string_view kFunctions =
    " floordiv truncdiv rem fmod pow max min atan2 hypot copysign abs sign sqrt rsqrt floor ceil trunc round isinf "
    "signbit exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
    "lgamma sigmoid ";

class Language : public codegen::LoopLanguage {
 public:
  std::string name() const override { return "toy"; }

  /// A KernelFunction.
  std::string head(const std::string& symbol, const codegen::LoopParameters& given) const override {
    std::string out = fmt::format(
        "extern \"C\" void {}(void* const* buffers, const i64* scalars, i64 block, i64* failed) {{\n", symbol);
    for (std::size_t i = 0; i < given.pointers.size(); ++i)
      out += fmt::format("  {0}* const p{1} = ({0}*)buffers[{1}];\n", given.pointers[i], i);
    for (std::size_t i = 0; i < given.scalars; ++i) out += fmt::format("  const i64 s{0} = scalars[{0}];\n", i);
    return out;
  }

  std::string call(std::string_view function, DType, const std::vector<std::string>& args) const override {
    if (kFunctions.find(fmt::format(" {} ", function)) == kFunctions.npos) fail("toy has no kernels with {}", function);
    return fmt::format("t_{}({})", function, fmt::join(args, ", "));
  }
};

class Backend : public codegen::LoopBackend {
 public:
  explicit Backend(codegen::BackendRequest request)
      : LoopBackend(std::make_unique<Language>(),
                    {.device = request.device,
                     .arch = kArchitecture,
                     .type_limits = {{"linear", {DType::F32, DType::F64}}, {"matmul", {DType::F32, DType::F64}}}},
                    std::move(request.choices)),
        toolchain_(request.toolchain) {}

  codegen::Binaries compile(std::span<const std::string> kernels,
                            const codegen::CompileKernels& options) const override {
    codegen::Binaries out;
    if (kernels.empty()) return out;
    out.source = kPrelude + sym::code_helpers(sym::Language::Cpp);
    for (const std::string& k : kernels) out.source += k;
    out.libraries = codegen::compile_shared(toolchain_, std::span(&out.source, 1),
                                            {.jobs = options.jobs, .cache_folder = options.cache});
    return out;
  }

 private:
  codegen::Toolchain toolchain_;
};

}  // namespace

std::unique_ptr<codegen::Backend> make_backend(codegen::BackendRequest request) {
  return std::make_unique<Backend>(std::move(request));
}

}  // namespace toy
