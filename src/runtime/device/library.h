// What carries out calls of library operations (library_ops/table.h): a call site, and the registry of those that make
// call sites, by operation and device.
#pragma once
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "library_ops/descriptor.h"
#include "runtime/plan/plan.h"
#include "runtime/views/bound_view.h"
#include "support/extension_api.h"

namespace coil::runtime {

/// One call site. `prepare` is called when sizes are bound (again when they change); `run` then only takes pointers
/// (already moved by each view's offset) and must not allocate. A call site is used by one thread at a time; `run` may
/// use OpenMP threads inside.
class LibraryOp {
 public:
  virtual ~LibraryOp() = default;
  virtual void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) = 0;
  /// Bytes of scratch memory that `run` wants, valid after `prepare`.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// On another device: whether the host does work for it in each run, so that it cannot be recorded. Valid after
  /// `prepare`.
  virtual bool runs_on_host() const { return false; }
  /// Whether it is run though no result has an element, for what it does beside.
  virtual bool runs_when_empty() const { return false; }
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) = 0;
};

/// A call as an operation is handed it; the views of library_ops name what its operands and attributes are.
struct BoundCall {
  const Attributes& attributes;
  std::span<const BoundView> inputs, outputs;
};

using LibraryFactory = std::function<std::unique_ptr<LibraryOp>(const Attributes&)>;

/// Makes a call site on the CPU; throws Error naming the operation when this build has none, or an attribute that it
/// does not have or that has another type.
std::unique_ptr<LibraryOp> make_library_op(std::string_view op, const Attributes&);
bool has_library_op(std::string_view op, DeviceType = DeviceType::CPU);
/// Whether a call of the operation can be made for the device, by a form of its own or by the host's
/// (runtime/device/host_call_site.h).
bool carries_out(std::string_view op, DeviceType);
void define_library_op(std::string_view op, LibraryFactory);
/// An operation that Coil does not bring, with what the verifiers hold its calls to. Without a description any operands
/// and attributes will do.
void define_library_op(library_ops::Descriptor, LibraryFactory);

class Queue;
/// On another device: the call site works on the queue, which outlives it.
using QueueLibraryFactory = std::function<std::unique_ptr<LibraryOp>(const Attributes&, Queue&)>;
COIL_EXTENSION_API std::unique_ptr<LibraryOp> make_library_op(Queue&, std::string_view op, const Attributes&);
void define_library_op(DeviceType, std::string_view op, QueueLibraryFactory);

/// A factory of call sites of a class, which is made of the attributes or of nothing.
template <class Op>
std::unique_ptr<LibraryOp> call_site(const Attributes& attributes) {
  if constexpr (std::is_constructible_v<Op, const Attributes&>)
    return std::make_unique<Op>(attributes);
  else
    return std::make_unique<Op>();
}
/// A factory of call sites on another device, of a class that is made of attributes and a queue, or of a queue.
template <class Op>
std::unique_ptr<LibraryOp> call_site_on(const Attributes& attributes, Queue& queue) {
  if constexpr (std::is_constructible_v<Op, const Attributes&, Queue&>)
    return std::make_unique<Op>(attributes, queue);
  else
    return std::make_unique<Op>(queue);
}

/// Defines operations when the process starts: a constant of this type in the file that carries them out is all that it
/// takes.
struct DefineLibraryOps {
  DefineLibraryOps(std::initializer_list<std::pair<std::string_view, LibraryFactory>> ops);
  DefineLibraryOps(DeviceType, std::initializer_list<std::pair<std::string_view, QueueLibraryFactory>> ops);
};

/// A constant operand rearranged once into the form an operation likes best. `attributes` to add to the call
/// (`packed_desc`), `bytes` to store: their memory is there, and `fill`, where it is one, is still to write it, on any
/// thread.
struct Packed {
  Attributes attributes;
  Tensor bytes;
  std::function<void()> fill;

  /// The bytes, written.
  const Tensor& written() {
    if (fill) std::exchange(fill, nullptr)();
    return bytes;
  }
};
/// Packs operand `input` (a weight) for calls of `op` with these attributes whose other operands look like `inputs`
/// (sizes are hints where symbolic), for machines with `isa` (support/cpu.h). Nothing when packing gains nothing.
std::optional<Packed> pack_operand(std::string_view op, const Attributes&, std::span<const BoundView> inputs,
                                   std::span<const BoundView> outputs, std::size_t input, const Tensor& value,
                                   std::string_view isa);

}  // namespace coil::runtime
