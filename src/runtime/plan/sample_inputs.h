// The sample inputs that a package carries when they are small, so that it runs without being given any.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/bytes.h"
#include "tensor/tensor.h"

namespace coil::runtime {

struct SampleInputs {
  std::string header;           ///< JSON: dtype and sizes of each, null for None
  std::vector<std::byte> data;  ///< their elements, dense, one after another, each from a multiple of 8
};

/// Nothing when there are none or they are larger than `limit` bytes.
std::optional<SampleInputs> pack_sample_inputs(const std::vector<Tensor>&, std::size_t limit = std::size_t{1} << 20);
/// Throws Error when the two do not belong together.
std::vector<Tensor> unpack_sample_inputs(std::string_view header, const Bytes& data);

}  // namespace coil::runtime
