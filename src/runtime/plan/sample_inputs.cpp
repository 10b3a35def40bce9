#include "runtime/plan/sample_inputs.h"

#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil::runtime {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

std::size_t bytes_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype); }

}  // namespace

std::optional<SampleInputs> pack_sample_inputs(const std::vector<Tensor>& inputs, std::size_t limit) {
  std::size_t total = 0;
  for (const Tensor& input : inputs)
    if (input.storage.data) total += padded(bytes_of(input));
  if (inputs.empty() || total > limit) return {};
  nlohmann::json header = nlohmann::json::array();
  SampleInputs packed;
  for (const Tensor& input : inputs) {
    if (!input.storage.data) {
      header.push_back(nullptr);
      continue;
    }
    header.push_back({{"dtype", torch_name(input.dtype)}, {"sizes", input.sizes}});
    const Tensor dense = input.contiguous();
    packed.data.insert(packed.data.end(), dense.bytes(), dense.bytes() + bytes_of(dense));
    packed.data.resize(padded(packed.data.size()));
  }
  packed.header = header.dump();
  return packed;
}

std::vector<Tensor> unpack_sample_inputs(std::string_view header, const Bytes& data) try {
  std::vector<Tensor> inputs;
  std::size_t at = 0;
  for (const nlohmann::json& entry : nlohmann::json::parse(header)) {
    Tensor& input = inputs.emplace_back();
    if (entry.is_null()) continue;
    auto dtype = dtype_from_torch_name(entry.at("dtype").get<std::string>());
    if (!dtype) fail("a sample input has an unknown dtype");
    Sizes sizes = entry.at("sizes").get<Sizes>();
    if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; }))
      fail("a sample input has a negative size");
    std::size_t count = static_cast<std::size_t>(numel(sizes));
    if (at > data.size || count > (data.size - at) / size_of(*dtype)) fail("the sample inputs are cut short");
    input = Tensor::empty(*dtype, std::move(sizes));
    std::memcpy(input.bytes(), data.span().data() + at, bytes_of(input));
    at += padded(bytes_of(input));
  }
  return inputs;
} catch (const nlohmann::json::exception&) {
  fail("the sample inputs have a malformed header");
}

}  // namespace coil::runtime
