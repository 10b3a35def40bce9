#include "tensor/safetensors.h"

#include <nlohmann/json.hpp>

#include "support/error.h"
#include "support/file.h"
#include "support/mapped_file.h"

namespace coil {

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference reader's limit
constexpr std::size_t kLine = 64;  // data begin on a cache line, so that a mapped file is as good as memory

struct Extent {
  std::uint64_t begin, end;
  std::string name;
};

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t v = 0;
  for (int i = 7; i >= 0; --i) v = v << 8 | static_cast<std::uint64_t>(bytes[i]);
  return v;
}

std::uint64_t unsigned_integer(const json& j) {
  if (!j.is_number_unsigned()) fail("expected a number that is not negative, found {}", j.dump());
  return j.get<std::uint64_t>();
}

Sizes parse_shape(const json& j) {
  Sizes sizes;
  if (!j.is_array()) fail("shape is no list");
  for (const json& s : j) {
    const std::uint64_t v = unsigned_integer(s);
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail("size {} does not fit in 64 bits", v);
    sizes.push_back(static_cast<std::int64_t>(v));
  }
  return sizes;
}

/// A tensor's storage: the mapped bytes themselves, or a copy where they are not aligned.
Storage storage_at(const std::shared_ptr<const MappedFile>& file, std::size_t offset, std::size_t bytes,
                   std::size_t item) {
  std::byte* at = file->at(offset);
  if (reinterpret_cast<std::uintptr_t>(at) % item == 0) return {std::shared_ptr<std::byte>(file, at), bytes};
  Storage copy = Storage::allocate(bytes);
  if (bytes > 0) std::memcpy(copy.data.get(), at, bytes);
  return copy;
}

Tensor parse_tensor(const json& entry, const std::shared_ptr<const MappedFile>& file, std::uint64_t base,
                    Extent& extent) {
  if (!entry.is_object()) fail("entry is no object");
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!entry.contains(key)) fail("'{}' is missing", key);
  const json& dtype_name = entry["dtype"];
  const auto dtype =
      dtype_name.is_string() ? dtype_from_safetensors_name(dtype_name.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype) fail("unknown dtype {}", dtype_name.dump());
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) fail("data_offsets is no pair");
  extent.begin = unsigned_integer(offsets[0]);
  extent.end = unsigned_integer(offsets[1]);
  const std::uint64_t available = file->size() - base;
  if (extent.begin > extent.end || extent.end > available)
    fail("data_offsets [{}, {}] lie outside the file's {} bytes of data", extent.begin, extent.end, available);

  Tensor t;
  t.dtype = *dtype;
  t.sizes = parse_shape(entry["shape"]);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(numel(t.sizes), static_cast<std::int64_t>(size_of(*dtype)), &bytes))
    fail("its size in bytes overflows");
  if (static_cast<std::uint64_t>(bytes) != extent.end - extent.begin)
    fail("shape and dtype need {} bytes, data_offsets give {}", bytes, extent.end - extent.begin);
  t.strides = contiguous_strides(t.sizes);
  t.storage = storage_at(file, base + extent.begin, static_cast<std::size_t>(bytes), size_of(*dtype));
  return t;
}

void check_extents(std::vector<Extent> extents, std::uint64_t available) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const Extent& e : extents) {
    if (e.begin < at) fail("tensor '{}' overlaps another", e.name);
    if (e.begin > at) fail("{} bytes before tensor '{}' belong to no tensor", e.begin - at, e.name);
    at = e.end;
  }
  if (at != available) fail("{} bytes at the end belong to no tensor", available - at);
}

Safetensors parse(const std::shared_ptr<const MappedFile>& file) {
  const auto bytes = file->bytes();
  if (bytes.size() < 8) fail("shorter than a header");
  const std::uint64_t header = little_endian(bytes.first(8));
  if (header > kMaxHeader || header > bytes.size() - 8)
    fail("header of {} bytes in a file of {}", header, bytes.size());
  const auto* text = reinterpret_cast<const char*>(bytes.data() + 8);
  const json parsed = json::parse(text, text + header, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) fail("the header is no JSON object");

  Safetensors result;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) fail("__metadata__ is no object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) fail("__metadata__ has a value that is no string");
        result.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    Extent extent{0, 0, name};
    try {
      result.tensors[name] = parse_tensor(entry, file, 8 + header, extent);
    } catch (const Error& e) {
      fail("tensor '{}': {}", name, e.what());
    }
    extents.push_back(std::move(extent));
  }
  check_extents(std::move(extents), bytes.size() - 8 - header);
  return result;
}

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path, MappedFile::Mode::CopyOnWrite);
  try {
    return parse(file);
  } catch (const Error& e) {
    fail("{} is no valid safetensors file: {}", path.string(), e.what());
  }
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  write_safetensors(file, tensors, metadata);
  file.commit();
}

void write_safetensors(AtomicFile& file, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Whole cache lines first, then larger elements: gaps are not allowed, and so most tensors begin on a line and all
  // are aligned to their element.
  std::vector<std::pair<const std::string*, const Tensor*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  auto rank = [](const Tensor& t) {
    return std::pair(static_cast<std::uint64_t>(t.numel()) * size_of(t.dtype) % kLine == 0, size_of(t.dtype));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return rank(*a.second) > rank(*b.second); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const auto dtype = safetensors_name(tensor->dtype);
    if (dtype.empty()) fail("cannot write tensor '{}': safetensors has no dtype {}", *name, torch_name(tensor->dtype));
    const std::uint64_t bytes = static_cast<std::uint64_t>(tensor->numel()) * size_of(tensor->dtype);
    header[*name] = {{"dtype", dtype}, {"shape", tensor->sizes}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((8 + text.size() + kLine - 1) / kLine * kLine - 8, ' ');

  std::byte length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i));
  file.write(length);
  file.write(text);
  for (const auto& [name, tensor] : order) {
    const Tensor dense = tensor->contiguous();
    file.write({dense.bytes(), static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype)});
  }
}

}  // namespace coil
