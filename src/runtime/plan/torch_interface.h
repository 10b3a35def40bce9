// What a package for torch says beside the program: how torch's calls of it look, as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace coil::runtime {

/// The names of a package's files, in one folder: the library, which torch opens, what torch reads of it, the program,
/// and this description.
inline constexpr const char* kTorchLibrary = "coil.wrapper.so";
inline constexpr const char* kTorchSource = "coil.wrapper.cpp";  ///< beside whose name torch 2.11 looks for the next
inline constexpr const char* kTorchMetadata = "coil.wrapper_metadata.json";
inline constexpr const char* kTorchProgram = "model.coil";
inline constexpr const char* kTorchInterface = "interface.json";

/// A parameter or buffer of the module.
struct TorchWeight {
  std::string name;          ///< in the module: `linear.weight`
  std::string constant;      ///< in the plan; empty where the program does not read it
  bool is_parameter = true;  ///< else a buffer
  DType dtype = DType::F32;
  Sizes sizes, strides;
};

struct TorchInterface {
  std::string in_spec, out_spec;     ///< as torch's pytree writes them
  std::vector<std::int64_t> inputs;  ///< those of the plan's inputs that calls give, in their order
  std::vector<std::int64_t> leaves;  ///< for each leaf of the result its place among the plan's outputs; -1: None
  std::vector<TorchWeight> weights;
  bool fixed = false;  ///< something was computed of the weights at compile time: they cannot be exchanged
};

std::string to_json(const TorchInterface&);
/// Throws Error on anything malformed.
TorchInterface torch_interface_from_json(std::string_view);

}  // namespace coil::runtime
