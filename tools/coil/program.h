// A program made ready to run, from a package or from an exported program.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "coil/coil.h"
#include "options.h"
#include "runtime/executor/executor.h"

namespace coil::cli {

struct ReadyProgram {
  std::shared_ptr<const runtime::Model> model;
  std::vector<Tensor> sample_inputs;  ///< one for each input of the plan, or none
  double compile_seconds = 0;         ///< from the archive on disk to ready to run; 0 for a package
  double load_seconds = 0;            ///< from kernels and weights (a package: from the file) to ready to run
};

/// Compiles what does not end in `.coil`. Throws Error when `--device` was given and a package was made for another.
ReadyProgram make_ready(const ModelOptions&);

/// `f32[*, 16]`: dtype and sizes that an input must have, `*` where the size is free or computed.
std::string type_of(const runtime::Plan&, const runtime::Input&);

/// `f32[3, 16]`.
std::string type_of(const Tensor&);

}  // namespace coil::cli
