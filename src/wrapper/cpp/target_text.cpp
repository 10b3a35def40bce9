#include "wrapper/cpp/target_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "codegen/cpp/toolchain.h"

namespace coil::wrapper {
namespace {

constexpr std::string_view kFloatFlags[] = {"-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"};

bool is_machine_flag(std::string_view flag) { return flag.starts_with("-m"); }
bool is_kept(std::string_view flag) {
  return is_machine_flag(flag) || codegen::is_optimization(flag) ||
         std::find(std::begin(kFloatFlags), std::end(kFloatFlags), flag) != std::end(kFloatFlags);
}

/// What a level of the instruction set defines for the preprocessor.
std::vector<std::string> macros_of(std::string_view level) {
  std::vector<std::string> out;
  if (level == "arch=x86-64-v3" || level == "arch=x86-64-v4") out = {"AVX", "AVX2", "FMA", "F16C", "BMI", "BMI2"};
  if (level == "arch=x86-64-v4") out.insert(out.end(), {"AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"});
  return out;
}

}  // namespace

std::string target_flags(const std::vector<std::string>& flags) {
  std::vector<std::string_view> kept;
  for (const std::string& f : flags)
    if (is_kept(f)) kept.push_back(f);
  return fmt::format("{}", fmt::join(kept, " "));
}

std::string target_pragmas(const std::vector<std::string>& flags) {
  std::vector<std::string> target, optimize, macros;
  for (const std::string& f : flags) {
    if (!is_kept(f)) continue;
    if (!is_machine_flag(f)) {
      optimize.push_back("\"" + f.substr(f.starts_with("-O") ? 1 : 2) + "\"");
      continue;
    }
    target.push_back(f.substr(2));
    if (f.starts_with("-march=")) {
      for (std::string& m : macros_of(target.back())) macros.push_back(std::move(m));
    } else {
      std::string name = target.back();
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
      macros.push_back(std::move(name));
    }
  }
  if (target.empty() && optimize.empty()) return "";
  std::string out = "#if defined(__GNUC__) && !defined(__clang__)\n";
  if (!target.empty()) out += fmt::format("#pragma GCC target(\"{}\")\n", fmt::join(target, ","));
  if (!optimize.empty()) out += fmt::format("#pragma GCC optimize({})\n", fmt::join(optimize, ", "));
  // GCC before 13 reads a whole C++ file before it obeys the pragma, so the macros that go with it are missing.
  for (const std::string& m : macros) out += fmt::format("#ifndef __{0}__\n#define __{0}__ 1\n#endif\n", m);
  return out + "#endif\n";
}

}  // namespace coil::wrapper
