// The C interface to what generated programs are made of: kernels run in parallel, library calls.
#include <algorithm>
#include <numeric>
#include <optional>

#include "library_ops/check.h"
#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "runtime/c_api/interface.h"
#include "runtime/c_api/queue.h"
#include "runtime/device/kernel_library.h"
#include "runtime/device/library.h"
#include "runtime/device/output_pool.h"
#include "runtime/device/threads.h"
#include "runtime/executor/device_copy.h"
#include "support/error.h"
#include "support/float_functions.h"

using namespace coil;
using namespace coil::runtime;

struct coil_op {
  std::string name;
  Queue* queue = nullptr;  ///< of operations on a GPU
  Attributes attributes;
  bool copies = false;                     ///< between the queue's device and the host
  std::unique_ptr<Queue> host;             ///< of copies
  std::unique_ptr<LibraryOp> op;           ///< made on the first run
  std::vector<BoundView> inputs, outputs;  ///< that `op` is prepared for
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  void *workspace = nullptr, *workspace_owner = nullptr;
  std::size_t workspace_bytes = 0;
  bool prepared = false;

  ~coil_op() {
    op.reset();
    coil_free(workspace_owner);
  }

  std::int64_t alignment(const coil_tensor& t) const {
    return queue ? std::gcd(kDeviceAlignment, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.data)))
                 : kDeviceAlignment;
  }

  bool looks_like(const std::vector<BoundView>& views, const coil_tensor* given, size_t count) const {
    if (views.size() != count) return false;
    for (size_t i = 0; i < count; ++i)
      if (views[i].sizes.size() != static_cast<size_t>(given[i].rank) || to_c(views[i].dtype) != given[i].dtype ||
          views[i].alignment != alignment(given[i]) ||
          !std::equal(views[i].sizes.begin(), views[i].sizes.end(), given[i].sizes) ||
          !std::equal(views[i].strides.begin(), views[i].strides.end(), given[i].strides))
        return false;
    return true;
  }

  std::vector<BoundView> bind(const coil_tensor* given, size_t count) const {
    std::vector<BoundView> views;
    for (size_t i = 0; i < count; ++i) {
      Tensor t = queue ? borrow(given[i], queue->device()) : borrow(given[i]);
      views.push_back({t.dtype, std::move(t.sizes), std::move(t.strides), alignment(given[i])});
    }
    return views;
  }

  void check_places(const coil_tensor* given, size_t count) const {
    if (copies) return;
    for (size_t i = 0; i < count; ++i)
      if ((given[i].on_device != 0) != (queue != nullptr))
        fail("{} takes memory of {}, which an operand does not lie in", name,
             queue ? to_string(queue->device()) : "the host");
  }

  void grow_workspace(std::size_t bytes) {
    coil_free(std::exchange(workspace_owner, nullptr));
    workspace_bytes = 0;
    if (queue) {
      Storage memory = queue->allocate(bytes);
      workspace = memory.data.get();
      workspace_owner = own(std::move(memory));
    } else {
      workspace = workspace_owner = coil_alloc(bytes);
      if (!workspace) fail("{}", coil_last_error());
    }
    workspace_bytes = bytes;
  }

  /// A call site's copies all go the way of the first.
  std::unique_ptr<LibraryOp> make_copy(const coil_tensor* from, size_t in_count, const coil_tensor* to,
                                       size_t out_count) {
    if (in_count != 1 || out_count != 1) fail("{} takes one operand and has one result", name);
    library_ops::check_attributes(library_ops::get(name), attributes);
    if (!host) host = open_cpu()->make_queue();
    return make_device_copy(from->on_device ? *queue : *host, to->on_device ? *queue : *host,
                            read(attributes, library_ops::copies::kNonBlocking));
  }

  void make(const coil_tensor* in, size_t in_count, const coil_tensor* out, size_t out_count) {
    if (op) return;
    if (copies)
      op = make_copy(in, in_count, out, out_count);
    else
      op = queue ? queue->make_op(name, attributes) : make_library_op(name, attributes);
  }

  void prepare(const coil_tensor* in, size_t in_count, const coil_tensor* out, size_t out_count) {
    if (prepared && looks_like(inputs, in, in_count) && looks_like(outputs, out, out_count)) return;
    prepared = false;
    make(in, in_count, out, out_count);
    inputs = bind(in, in_count);
    outputs = bind(out, out_count);
    op->prepare(inputs, outputs);
    if (op->workspace_bytes() > workspace_bytes) grow_workspace(op->workspace_bytes());
    prepared = true;
  }

  void run(const coil_tensor* in, size_t in_count, const coil_tensor* out, size_t out_count) {
    const bool empty = out_count > 0 && std::all_of(out, out + out_count, [](const coil_tensor& t) {
                         return std::find(t.sizes, t.sizes + t.rank, 0) != t.sizes + t.rank;
                       });
    if (empty) {
      make(in, in_count, out, out_count);
      if (!op->runs_when_empty()) return;
    }
    const ThreadScope threads(thread_count());
    std::optional<QueueScope> scope;
    if (queue) scope.emplace(*queue);
    check_places(in, in_count);
    check_places(out, out_count);
    prepare(in, in_count, out, out_count);
    input_pointers.clear();
    output_pointers.clear();
    for (size_t i = 0; i < in_count; ++i) input_pointers.push_back(in[i].data);
    for (size_t i = 0; i < out_count; ++i) output_pointers.push_back(out[i].data);
    op->run(input_pointers, output_pointers, workspace);
  }

  template <class T>
  void set(const char* attribute, T value) {
    attributes.insert_or_assign(attribute, std::move(value));
    op.reset();
    prepared = false;
  }
};

extern "C" {

double coil_round_decimal(double x, int64_t digits) { return round_decimal(x, digits); }

void coil_parallel_for(coil_kernel kernel, void* const* buffers, const int64_t* scalars, int64_t extent,
                       int64_t grain) {
  if (extent <= 0) return;
  const ThreadScope threads(thread_count());
  parallel_for(kernel, buffers, scalars, extent, chunk_count(extent, grain, thread_count()));
}

int coil_require_isa(const char* isa) {
  return guarded([&] { require_isa(isa); });
}

coil_op* coil_op_create(const char* name) {
  return guarded_pointer([&] {
    if (!has_library_op(name)) fail("this runtime has no library operation '{}'", name);
    auto op = std::make_unique<coil_op>();
    op->name = name;
    return op.release();
  });
}

coil_op* coil_op_create_on(coil_queue* queue, const char* name) {
  return guarded_pointer([&] {
    if (!queue) fail("no queue was given");
    const Device device = queue->queue->device();
    const bool copies = library_ops::has(name, library_ops::Trait::DeviceCopy);
    if (!copies && !carries_out(name, device.type))
      fail("this runtime has no library operation '{}' for {}", name, to_string(device));
    auto op = std::make_unique<coil_op>();
    op->name = name;
    op->queue = queue->queue.get();
    op->copies = copies;
    return op.release();
  });
}

void coil_op_destroy(coil_op* op) { delete op; }
void coil_op_set_int(coil_op* op, const char* attribute, int64_t value) { op->set(attribute, Attribute(value)); }
void coil_op_set_float(coil_op* op, const char* attribute, double value) { op->set(attribute, Attribute(value)); }
void coil_op_set_string(coil_op* op, const char* attribute, const char* value) {
  op->set(attribute, Attribute(std::string(value)));
}
void coil_op_set_ints(coil_op* op, const char* attribute, const int64_t* values, size_t count) {
  op->set(attribute, Attribute(std::vector<std::int64_t>(values, values + count)));
}
void coil_op_set_floats(coil_op* op, const char* attribute, const double* values, size_t count) {
  op->set(attribute, Attribute(std::vector<double>(values, values + count)));
}
void coil_op_set_strings(coil_op* op, const char* attribute, const char* const* values, size_t count) {
  op->set(attribute, Attribute(std::vector<std::string>(values, values + count)));
}

int coil_op_run(coil_op* op, const coil_tensor* inputs, size_t input_count, const coil_tensor* outputs,
                size_t output_count) {
  return guarded([&] { op->run(inputs, input_count, outputs, output_count); });
}

}  // extern "C"
