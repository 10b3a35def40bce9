// The machine of examples/device alone: it reads and writes its memory; with an argument, so does the host, which ends
// the process.
#include "machine.h"

int main(int count, char**) {
  toy::Memory memory(1 << 20);
  std::byte* const address = memory.allocate(64);
  *memory.at(address) = std::byte{7};
  const bool kept = *memory.at(address) == std::byte{7};
  return count > 1 ? static_cast<int>(*address) : !kept;
}
