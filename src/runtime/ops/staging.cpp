#include "runtime/ops/staging.h"

namespace coil::runtime {

Staging::Operand Staging::add(Entry entry, std::size_t bytes) {
  entry.offset = bytes_;
  bytes_ += (bytes + 63) / 64 * 64;
  operands_.push_back(std::move(entry));
  return operands_.size() - 1;
}

Staging::Operand Staging::input(std::size_t index) { return add({.source = Source::Input, .index = index}, 0); }

Staging::Operand Staging::input(std::size_t index, const BoundView& from, const BoundView& to) {
  return add({.source = Source::Input, .index = index, .copied = true, .loaded = true, .given = from, .staged = to},
             dense_bytes(to));
}

Staging::Operand Staging::output(std::size_t index) { return add({.source = Source::Output, .index = index}, 0); }

Staging::Operand Staging::output(std::size_t index, const BoundView& to, const BoundView& from, bool load) {
  return add({.source = Source::Output,
              .index = index,
              .copied = true,
              .loaded = load,
              .stored = true,
              .given = to,
              .staged = from},
             dense_bytes(from));
}

Staging::Operand Staging::old_output(std::size_t index, const BoundView& from, const BoundView& to) {
  return add({.source = Source::Output, .index = index, .copied = true, .loaded = true, .given = from, .staged = to},
             dense_bytes(to));
}

Staging::Operand Staging::scratch(std::size_t bytes) {
  return add({.source = Source::Scratch, .index = 0, .copied = true}, bytes);
}

void Staging::load(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
                   std::span<void*> pointers) const {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Entry& e = operands_[i];
    const void* given = e.source == Source::Input    ? inputs[e.index]
                        : e.source == Source::Output ? outputs[e.index]
                                                     : nullptr;
    pointers[i] = e.copied ? static_cast<std::byte*>(workspace) + e.offset : const_cast<void*>(given);
    if (e.loaded) convert(e.staged, pointers[i], e.given, given);
  }
}

void Staging::store(std::span<void* const> outputs, std::span<void* const> pointers) const {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Entry& e = operands_[i];
    if (e.stored) convert(e.given, outputs[e.index], e.staged, pointers[i]);
  }
}

}  // namespace coil::runtime
