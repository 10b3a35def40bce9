#include "support/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace coil {

namespace {

struct Feature {
  std::string_view name;
  bool present;
};

#if defined(__x86_64__)
/// AMX needs the kernel's leave for its tiles as well (XCR0 bits 17 and 18); cpuid leaf 7 alone does not tell.
bool amx_enabled() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return false;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & (3u << 17)) == (3u << 17);
}

bool leaf7(unsigned subleaf, char reg, int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, subleaf, &a, &b, &c, &d)) return false;
  unsigned value = reg == 'a' ? a : reg == 'b' ? b : reg == 'c' ? c : d;
  return (value >> bit) & 1u;
}
#endif

constexpr int kLevels = 3;  ///< the first entries of the table are levels, best first

const Feature* features(int& count) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                             __builtin_cpu_supports("avx512vl");
  static const bool amx = avx512 && amx_enabled() && leaf7(0, 'd', 24);
  static const Feature table[] = {{"avx512", avx512},
                                  {"avx2", avx2},
                                  {"baseline", true},
                                  {"avx512bf16", avx512 && leaf7(1, 'a', 5)},
                                  {"avx512vbmi", avx512 && leaf7(0, 'c', 1)},
                                  {"avx512vnni", avx512 && leaf7(0, 'c', 11)},
                                  {"amx-tile", amx},
                                  {"amx-bf16", amx && leaf7(0, 'd', 22)},
                                  {"amx-int8", amx && leaf7(0, 'd', 25)}};
  count = sizeof table / sizeof *table;
  return table;
#else
  static const Feature table[] = {{"avx512", false}, {"avx2", false}, {"baseline", true}};
  count = kLevels;
  return table;
#endif
}

}  // namespace

std::string machine_isa() {
  int count;
  const Feature* all = features(count);
  std::string out;
  for (int i = 0; i < kLevels && out.empty(); ++i) {
    if (all[i].present) out = all[i].name;
  }
  for (int i = kLevels; i < count; ++i) {
    if (all[i].present) out.append("+").append(all[i].name);
  }
  return out;
}

bool halves_bf16_products() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") && leaf7(0, 'd', 23);
#else
  return false;
#endif
}

bool machine_runs(std::string_view isa) {
  int count;
  const Feature* all = features(count);
  while (true) {
    std::string_view name = isa.substr(0, isa.find('+'));
    bool present = false;
    for (int i = 0; i < count; ++i) present |= all[i].name == name && all[i].present;
    if (!present) return false;
    if (name.size() == isa.size()) return true;
    isa.remove_prefix(name.size() + 1);
  }
}

}  // namespace coil
