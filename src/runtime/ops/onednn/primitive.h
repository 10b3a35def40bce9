// What the oneDNN operations share: descriptors, post-operations, and running one primitive.
#pragma once
#ifdef COIL_HAVE_ONEDNN
#include <functional>

#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/device/cached_op.h"
#include "runtime/ops/post_ops.h"
#include "runtime/ops/staging.h"

namespace coil::runtime::onednn {

const dnnl::engine& engine();
dnnl::memory::data_type data_type(DType);
/// The memory of a view; dimensions of stride 0 become dimensions of size 1, which oneDNN broadcasts.
dnnl::memory::desc describe(const BoundView&);
/// The memory of a dense view with its own strides, also in dimensions of size 1: with one channel they tell oneDNN
/// channels-last from rows, and where it takes x for rows and y for channels-last it has but its reference.
dnnl::memory::desc describe_exactly(const BoundView&);
/// The type in which to multiply values of two types: bf16 where both are and that is faster here (without instructions
/// for it oneDNN emulates it, at less than a third of f32's speed), else f32.
DType product_type(DType, DType);
/// f32, and the floats of 16 bits, which are computed on as `product_type` says.
bool is_float16_or_32(DType);

/// `post` as oneDNN's attribute, with the scratchpad left to the caller; `operands` are those of add and mul, in order.
dnnl::primitive_attr attributes(const std::vector<PostOp>& post, const std::vector<dnnl::memory::desc>& operands);
/// The argument of the operand of post-operation `i` as oneDNN numbers them (hardsigmoid takes two places).
std::vector<int> operand_arguments(const std::vector<PostOp>& post);

/// A memory descriptor as text: hex of its bytes behind the version that can read it.
std::string desc_to_text(const dnnl::memory::desc&);
/// Throws Error when another version of oneDNN wrote it.
dnnl::memory::desc desc_from_text(const std::string&);

/// A call that `make` builds to compute on a type: on `type`, or in f32 where oneDNN has none for it; nothing where it
/// has neither. Throws Error for a weight packed for `type` (`packed`) that this machine cannot use.
std::unique_ptr<PreparedCall> attempt(DType type, bool packed,
                                      const std::function<std::unique_ptr<PreparedCall>(DType)>& make);

/// The reference implementation: right, and a hundred times slower.
bool is_reference(const char* implementation);

/// A tensor of a narrower float as f32, in the same layout.
Tensor widened(const Tensor&);
/// `value`, which lies as `plain`, rearranged as `packed`.
Packed pack(const Tensor& value, const dnnl::memory::desc& plain, const dnnl::memory::desc& packed);

/// A primitive with its operands. Packed weights that the primitive wants otherwise (packed for another machine) are
/// rearranged at the first run.
class PrimitiveCall : public PreparedCall {
 public:
  PrimitiveCall(const dnnl::primitive& primitive, Staging staging)
      : primitive_(primitive), staging_(std::move(staging)) {}
  void add(int argument, const dnnl::memory::desc&, Staging::Operand);
  void add_repacked(int argument, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted, Staging::Operand);
  /// An operand rearranged before each run, in `scratch`.
  void add_reordered(int argument, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted, Staging::Operand,
                     Staging::Operand scratch);
  /// The result rearranged after each run; with `load`, its old values rearranged before.
  void add_reordered_result(int argument, const dnnl::memory::desc& wanted, const dnnl::memory::desc& given,
                            Staging::Operand scratch, Staging::Operand, bool load);

  std::size_t workspace_bytes() const override { return staging_.bytes(); }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override;

 private:
  struct Bound {
    dnnl::memory memory;
    Staging::Operand operand;
    void* pointer = nullptr;
  };
  struct Reorder {
    dnnl::primitive primitive;
    std::size_t from, to;  ///< places in bound_
    bool once = false, done = false;
  };
  std::size_t bind(const dnnl::memory::desc&, Staging::Operand);
  void point(Bound&, void*);
  void reorder(Reorder&);

  dnnl::primitive primitive_;
  Staging staging_;
  std::vector<Bound> bound_;
  std::vector<std::unique_ptr<Storage>> repacked_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<Reorder> before_, after_;
  std::vector<void*> pointers_;
};

}  // namespace coil::runtime::onednn
#endif
