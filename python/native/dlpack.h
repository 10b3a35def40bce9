// DLPack 1.x as the extension uses it: the C structures by which array libraries hand each other memory, and the table
// of functions that torch offers for it. The layout is the standard's (https://dmlc.github.io/dlpack); only what is
// used here is written down.
#pragma once
#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace coil::dlpack {

struct Version {
  std::uint32_t major, minor;
};

enum DeviceKind : std::int32_t { kCpu = 1, kCuda = 2 };
struct Device {
  std::int32_t kind, index;
};

enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 12
};
struct Type {
  std::uint8_t code, bits;
  std::uint16_t lanes;
  bool operator==(const Type&) const = default;
};

/// Sizes and strides count elements and belong to whoever gave the view; strides may be null for dense row-major.
struct View {
  void* data;
  Device device;
  std::int32_t rank;
  Type type;
  std::int64_t *sizes, *strides;
  std::uint64_t byte_offset;
};

/// A view that owns its memory: `deleter` ends it, from any thread.
struct Managed {
  Version version;
  void* context;
  void (*deleter)(Managed*);
  std::uint64_t flags;
  View view;
};

/// `torch.Tensor.__dlpack_c_exchange_api__` is a capsule of this name and type. Functions return 0, or -1 with a Python
/// error set; none of them synchronises a device.
inline constexpr const char* kCapsule = "dlpack_exchange_api";
struct ExchangeApi {
  Version version;
  const ExchangeApi* older;
  int (*allocate)(View* like, Managed** out, void* error_context,
                  void (*set_error)(void*, const char* kind, const char* message));
  int (*managed_from_object)(void* object, Managed** out);
  int (*managed_to_object)(Managed*, void** object);
  int (*view_from_object)(void* object, View* out);  ///< borrowed: valid while the object lives. May be null.
  int (*current_stream)(std::int32_t device_kind, std::int32_t device_index, void** stream);
};

/// Nothing for a type that DLPack has none of.
std::optional<Type> type_of(DType);
/// Throws Error for a type that Coil has none of.
DType dtype_of(Type);
/// Whether the tensor has the view's dtype, sizes and strides.
bool looks_like(const View&, const Tensor&);
/// Bytes from the first element to the end of the last.
std::size_t span_bytes(const Tensor&);

}  // namespace coil::dlpack
