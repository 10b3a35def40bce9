#include "wrapper/emitter.h"

#include <algorithm>

#include "codegen/backends.h"
#include "support/error.h"

namespace coil::wrapper {

void Emitter::locate(const std::string& text, const std::string& body, std::size_t begin,
                     const std::vector<std::size_t>& ends) {
  lines_.clear();
  const std::size_t start = text.find(body);
  COIL_CHECK(start != text.npos, "the text has lost its body");
  std::size_t at = start + begin, line = 1 + static_cast<std::size_t>(std::count(
                                                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  for (std::size_t end : ends) {
    const std::size_t count = static_cast<std::size_t>(std::count(
        text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(start + end), '\n'));
    lines_.push_back({line, count});
    line += count;
    at = start + end;
  }
}

void require_device(const Program& p, const char* language) {
  if (!codegen::emits(p.device.type, language))
    fail("--emit={} writes no programs for {}", language, to_string(p.device));
  if (!p.device.is_host()) return;
  for (const Buffer& b : p.buffers)
    if (!b.device.is_host())
      fail("--emit={} writes a program for the cpu; {} lies on {}; write a package instead", language, b.name,
           to_string(b.device));
}

void require_one_device(const Program& p, const char* language) {
  if (!p.others.empty())
    fail(
        "--emit={} writes programs on one device; this one lies on {} and {}: compile with --set one_device=true, "
        "which "
        "moves what its author put there, but for library calls that {} has no form of",
        language, to_string(p.device), to_string(p.others.front()), to_string(p.device));
}

void require_ends_on_one_device(const Program& p, const char* language) {
  for (BufferId b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].kind != BufferKind::Temporary && p.place_of(b) != 0) require_one_device(p, language);
}

}  // namespace coil::wrapper
