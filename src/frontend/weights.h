// The tensors of an archive: parameters, buffers and constants by qualified name, mapped from the file.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "frontend/json.h"
#include "support/archive.h"
#include "tensor/tensor.h"

namespace coil::frontend {

class Weights {
 public:
  /// `prefix` is the archive's top folder with its slash, or empty; `model` the program's name. Reads the configuration
  /// only.
  Weights(const Archive& archive, std::string prefix, const std::string& model);
  ~Weights();

  /// Tensors whose bytes lie in one payload share its storage. Throws Error naming the tensor when it is missing, is no
  /// plain tensor, or reaches beyond its payload.
  Tensor get(const std::string& name);

 private:
  struct Payload {
    std::string entry;
    const Json* meta;
  };
  void read_config(const std::string& folder, const std::string& config, const std::string& legacy);
  Tensor read(const Payload&);
  Storage storage_of(const std::string& entry, std::size_t alignment);

  const Archive& archive_;
  std::string prefix_;
  std::vector<std::unique_ptr<JsonDocument>> configs_;
  std::unordered_map<std::string, Payload> payloads_;
  std::map<std::string, Storage> storages_;
  std::unordered_map<std::string, Tensor> pickled_;  ///< of archives that hold one pickle for all
};

}  // namespace coil::frontend
