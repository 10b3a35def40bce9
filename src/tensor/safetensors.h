// Safetensors files: named tensors in, mapped; named tensors out, written aside and renamed.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "support/file.h"
#include "tensor/tensor.h"

namespace coil {

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;  ///< the header's `__metadata__`
};

/// Tensors point into a copy-on-write mapping of the file, dense and row-major; one whose data is not aligned to its
/// element is copied. Throws Error on a header that is malformed, out of bounds, overlapping, or leaves bytes
/// unaccounted for.
Safetensors read_safetensors(const std::filesystem::path&);

/// Same tensors, same bytes. Tensors that are not dense are written densely. Throws Error on a dtype the format has no
/// name for.
void write_safetensors(const std::filesystem::path&, const std::map<std::string, Tensor>&,
                       const std::map<std::string, std::string>& metadata = {});

/// The same into a file that the caller commits.
void write_safetensors(AtomicFile&, const std::map<std::string, Tensor>&,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace coil
