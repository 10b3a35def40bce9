// How a program's inputs and outputs nest, for its package.
#pragma once
#include <optional>

#include "frontend/pt2.h"
#include "runtime/plan/plan.h"

namespace coil {

/// Nothing for a program that did not come with its structure, or whose plan takes or gives something else than the
/// archive says.
std::optional<runtime::Signature> signature_of(const frontend::ExportedProgram&, const runtime::Plan&);

}  // namespace coil
