// Packages for torch: programs that AOTInductor's loaders load, with Coil's runtime inside (docs/aoti.md).
#pragma once
#include <filesystem>

#include "compiler/pipeline.h"
#include "runtime/plan/program.h"
#include "runtime/plan/torch_interface.h"

namespace coil {

/// What torch asks of a program that was lowered from an archive. Throws Error on one that torch could not call.
runtime::TorchInterface torch_interface(const LoweredProgram&, const runtime::Plan&, const Settings&);

/// `emit` in the form `aoti`: compiles an archive, with `keep_weights` where the settings do not say otherwise.
void emit_torch_package(const std::filesystem::path& pt2, const std::filesystem::path& output, const CompileOptions&);

/// Writes the `.pt2`, aside and renamed. Throws Error where the library that goes into it is not beside the compiler.
void write_torch_package(const runtime::StoredProgram&, const runtime::TorchInterface&, const std::filesystem::path&);

}  // namespace coil
