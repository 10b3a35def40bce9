// Any bytes given as a package, or as the plan in one, load or end in one error. Text that begins with a brace is a
// plan: behind the hash that guards it in a package no change would come through.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "runtime/executor/executor.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_json.h"
#include "support/error.h"

namespace {

void read(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == '{') {
    const coil::runtime::Plan plan = coil::runtime::plan_from_json({reinterpret_cast<const char*>(data), size});
    coil::runtime::check_plan(plan);
    return;
  }
  const int file = memfd_create("package", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) __builtin_trap();
  struct Close {
    int file;
    ~Close() { close(file); }
  } closing{file};
  coil::runtime::load_program("/proc/self/fd/" + std::to_string(file), coil::runtime::WeightCheck::Hash);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read(data, size);
  } catch (const coil::Error& e) {
    if (std::strncmp(e.what(), "internal error", 14) == 0) __builtin_trap();
  }
  return 0;
}
