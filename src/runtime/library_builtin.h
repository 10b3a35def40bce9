// The table of operations that the runtime itself brings.
#pragma once
#include <span>
#include <string_view>

#include "runtime/library.h"

namespace coil::runtime {

struct BuiltinOp {
  std::string_view name;
  std::unique_ptr<LibraryOp> (*make)(const Attributes&);
};

std::span<const BuiltinOp> builtin_ops();

}  // namespace coil::runtime
