// Any bytes given as an archive end in a program or in one error.
#include <cstring>

#include "frontend/pt2.h"
#include "fx/text.h"
#include "support/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Page-aligned as a mapped file is, so that entries are read in place.
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(4096, (size / 4096 + 1) * 4096)),
                                          [](std::byte* p) { std::free(p); });
  if (size > 0) std::memcpy(memory.get(), data, size);
  try {
    const auto archive = coil::Archive::from_bytes({memory, size}, "fuzz.pt2", {.inflated_bytes = 1 << 24});
    const auto program = coil::frontend::read_pt2(archive);
    coil::fx::to_string(*program.module);
    for (const auto& [name, tensor] : program.module->attributes) tensor.contiguous();
  } catch (const coil::Error& e) {
    if (std::strncmp(e.what(), "internal error", 14) == 0) __builtin_trap();
  }
  return 0;
}
