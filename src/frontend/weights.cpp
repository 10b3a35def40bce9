#include "frontend/weights.h"

#include "frontend/pickle.h"
#include "frontend/values.h"
#include "support/error.h"

namespace coil::frontend {

namespace {

std::int64_t constant(const Json& sym_int) {
  const auto& [kind, value] = sym_int.only_member();
  if (kind != "as_int") sym_int.fail("the size of a weight is symbolic");
  return value->as_int();
}

Sizes constants(const Json& list) {
  Sizes values;
  for (const Json* item : list.items()) values.push_back(constant(*item));
  return values;
}

}  // namespace

Weights::Weights(const Archive& archive, std::string prefix, const std::string& model)
    : archive_(archive), prefix_(std::move(prefix)) {
  read_config("data/weights/", model + "_weights_config.json", model + ".pt");
  read_config("data/constants/", model + "_constants_config.json", model + ".pt");
}

Weights::~Weights() = default;

void Weights::read_config(const std::string& folder, const std::string& config, const std::string& legacy) {
  const std::string at = prefix_ + folder;
  if (archive_.contains(at + config)) {
    configs_.push_back(std::make_unique<JsonDocument>(archive_.read(at + config).text(), folder + config));
    for (const auto& [name, meta] : configs_.back()->root()["config"].members())
      if (!payloads_.emplace(name, Payload{at + (*meta)["path_name"].as_string(), meta}).second)
        meta->fail("both a weight and a constant");
  } else if (archive_.contains(at + legacy)) {
    // torch 2.8 and older: one `torch.save` of a dict of tensors.
    const Archive inner = Archive::from_bytes(archive_.map(at + legacy), folder + legacy);
    const Pickle pickle = Pickle::read_torch_save(inner);
    const PickleValue& dict = pickle.root();
    if (!dict.is(PickleValue::Kind::Dict)) fail("{}: expected a dict of tensors", folder + legacy);
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
      if (dict.items[i]->is(PickleValue::Kind::String) && dict.items[i + 1]->is(PickleValue::Kind::Tensor))
        pickled_.emplace(dict.items[i]->text, dict.items[i + 1]->tensor);
  }
}

Tensor Weights::get(const std::string& name) {
  if (const auto it = pickled_.find(name); it != pickled_.end()) return it->second;
  const auto it = payloads_.find(name);
  if (it == payloads_.end()) fail("the archive has no data for '{}'", name);
  try {
    return read(it->second);
  } catch (const Error& e) {
    fail("tensor '{}': {}", name, e.what());
  }
}

Tensor Weights::read(const Payload& payload) {
  const Json& meta = *payload.meta;
  const Json* pickled = meta.find("use_pickle");
  if (pickled && pickled->as_bool()) {
    const Archive inner = Archive::from_bytes(archive_.map(payload.entry), payload.entry);
    const Pickle pickle = Pickle::read_torch_save(inner);
    if (!pickle.root().is(PickleValue::Kind::Tensor))
      fail("objects of class '{}' are not supported", pickle.root().text);
    return pickle.root().tensor;
  }
  const Json* tensor_meta = meta.find("tensor_meta");
  if (!tensor_meta) fail("it is no tensor; custom objects are not supported");
  Tensor t;
  t.dtype = read_dtype((*tensor_meta)["dtype"]);
  t.sizes = constants((*tensor_meta)["sizes"]);
  t.strides = constants((*tensor_meta)["strides"]);
  t.offset = constant((*tensor_meta)["storage_offset"]);
  if (t.sizes.size() != t.strides.size()) tensor_meta->fail("as many strides as sizes are needed");
  if (read_layout((*tensor_meta)["layout"]) != ops::TensorLayout::Strided)
    tensor_meta->fail("sparse tensors are not supported");
  if (t.offset < 0) tensor_meta->fail("the offset is negative");
  t.storage = storage_of(payload.entry, size_of(t.dtype));
  t.check_bounds();
  return t;
}

Storage Weights::storage_of(const std::string& entry, std::size_t alignment) {
  auto [it, added] = storages_.try_emplace(entry);
  if (!added) return it->second;
  const Bytes bytes = archive_.map(entry);
  if (reinterpret_cast<std::uintptr_t>(bytes.data.get()) % alignment == 0) {
    it->second = {bytes.data, bytes.size};
  } else {
    it->second = Storage::allocate(bytes.size);
    std::memcpy(it->second.data.get(), bytes.data.get(), bytes.size);
  }
  return it->second;
}

}  // namespace coil::frontend
