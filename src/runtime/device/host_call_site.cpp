#include "runtime/device/host_call_site.h"

#include "runtime/device/convert.h"
#include "runtime/device/device.h"

namespace coil::runtime {
namespace {

/// Operands on the host are dense, whatever their strides on the device.
class PreparedHostCall : public PreparedCall {
 public:
  PreparedHostCall(Queue& queue, std::unique_ptr<LibraryOp> op, std::span<const BoundView> inputs,
                   std::span<const BoundView> outputs)
      : queue_(queue), op_(std::move(op)) {
    take(inputs, inputs_);
    take(outputs, outputs_);
    std::vector<BoundView> in, out;
    for (const Operand& o : inputs_)
      in.push_back(dense_view(o.given.dtype, o.given.sizes)), in_pointers_.push_back(o.here.bytes());
    for (const Operand& o : outputs_)
      out.push_back(dense_view(o.given.dtype, o.given.sizes)), out_pointers_.push_back(o.here.bytes());
    op_->prepare(in, out);
    workspace_ = Storage::allocate(op_->workspace_bytes());
  }

  std::size_t workspace_bytes() const override { return 0; }
  bool runs_on_host() const override { return true; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void*) override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) move(inputs_[i].here, there(inputs_[i], inputs[i]));
    queue_.wait();
    op_->run(in_pointers_, out_pointers_, workspace_.data.get());
    for (std::size_t i = 0; i < outputs_.size(); ++i) move(there(outputs_[i], outputs[i]), outputs_[i].here);
    queue_.wait();  // the copies read memory that the next run writes to
  }

 private:
  struct Operand {
    BoundView given;  ///< on the device
    Tensor here;
  };

  static void take(std::span<const BoundView> views, std::vector<Operand>& to) {
    for (const BoundView& v : views) to.push_back({v, Tensor::empty(v.dtype, v.sizes)});
  }

  Tensor there(const Operand& o, const void* data) const {
    Storage borrowed{
        std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(const_cast<void*>(data))), 0,
        queue_.device()};
    return {std::move(borrowed), o.given.dtype, o.given.sizes, o.given.strides, 0};
  }

  void move(const Tensor& to, const Tensor& from) {
    if (to.numel() > 0) queue_.copy(to, from);
  }

  Queue& queue_;
  std::unique_ptr<LibraryOp> op_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<const void*> in_pointers_;
  std::vector<void*> out_pointers_;
  Storage workspace_;
};

class HostCallSite : public CachedOp {
 public:
  HostCallSite(Queue& queue, std::string_view op, const Attributes& attributes)
      : queue_(queue), op_(op), attributes_(attributes) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    return prepare_host_call(queue_, op_, attributes_, inputs, outputs);
  }

 private:
  Queue& queue_;
  const std::string op_;
  const Attributes attributes_;
};

}  // namespace

std::unique_ptr<LibraryOp> make_host_call_site(Queue& queue, std::string_view op, const Attributes& attributes) {
  return std::make_unique<HostCallSite>(queue, op, attributes);
}

std::unique_ptr<PreparedCall> prepare_host_call(Queue& queue, std::string_view op, const Attributes& attributes,
                                                std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  return std::make_unique<PreparedHostCall>(queue, make_library_op(op, attributes), inputs, outputs);
}

}  // namespace coil::runtime
