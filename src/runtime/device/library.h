// Library kernels: operations that plans call by name and that a library (oneDNN) or a hand-written loop carries out.
//
// Operations, with inputs -> outputs. Sizes are those of the views; any strides that the views have are honoured.
//   linear      x[.., K], weight, bias?, post-op operands.. -> y[.., N]
//               weight is [N, K] as torch has it, or packed (attribute `packed_desc`). Attributes: `n`, `k`,
//               `has_bias`, `weight_transposed` (1: weight is [K, N], addmm/mm) On CUDA also `algorithm` and
//               `algorithm_for`: which of cuBLASLt's heuristics' list, on that device with that version alone
//               (autotune/products.h); of matmul too and `tf32` (1: f32 operands may be rounded to it); of matmul,
//               convolution and convolution_weights too
//   matmul      a[B.., M, K], b[B.., K, N], bias?, post-op operands.. -> y[B.., M, N]     (batched; dtype f32, bf16,
//   f16, integers by plain loops) convolution x[N, C, ..], weight, bias?, post-op operands.. -> y[N, O, ..]
//               Attributes: `stride`, `padding` (begin), `padding_end`, `dilation`, `groups`, `transposed`,
//               `output_padding`, `has_bias`, `weight_sizes`, `packed_desc`
//   convolution_weights x[N, C, ..], dy[N, O, ..] -> dw[O, C/groups, ..]: the gradient of a convolution's weight.
//   Attributes: `stride`, `padding`, `dilation`, `groups` winograd_products   v, u, x, flag -> m:
//   runtime/ops/winograd.h Post-operations, applied in order to the f32 accumulator: attribute `post` is a list of
//   strings: `relu`, `gelu_erf`, `gelu_tanh`, `silu`, `sigmoid`, `tanh`, `clip:LO:HI`, `hardswish`, `hardsigmoid`,
//   `elu:ALPHA`, `leaky_relu:SLOPE`, `scale:A:B` (a*x+b), `add`, `mul` (each takes the next post-op operand, broadcast
//   against y), `sum` (y += what y holds already: in place). oneDNN's relu, clip and hardsigmoid give a number for NaN,
//   where eager gives NaN; all other post-operations, and the plain loops, keep NaN. Attribute `nan`
//   (runtime/ops/nan_guard.h) asks for NaN to be kept: `keep`, or `flag`, with the result of all_bounded as the last
//   input. The compiler asks where it cannot prove that no NaN comes (passes/loop/nan_guards.h). all_bounded x, flag? ->
//   flag, an I32 of one element: 1 where the flag given is 1 and no element of x (f32, bf16, f16) is NaN or greater in
//   magnitude than attribute `limit`, else 0 sort        x -> values, indices. Attributes: `dim`, `descending`; `first`
//   or `middle` where only some ranks are wanted (runtime/ops/sort.h). Always stable, NaN greatest. topk        x ->
//   values, indices (their size in `dim` says how many). Attributes: `dim`, `largest`. Always sorted. recurrent   one
//   direction of a layer of an LSTM, GRU or plain recurrent network over a sequence: runtime/ops/recurrent.h
//   assert_finite   x ->     Fails where x holds NaN (attribute `nan`) or an infinity (`inf`), naming `name`.
//   assert_aligned  x ->     Fails where x does not lie at a multiple of `bytes`, naming `name`. nonzero     mask
//   (dense) -> the first row-major positions of true elements, as many as the result has, then -1 repeat_positions
//   counts -> position 0 counts[0] times, position 1 counts[1] times, … unique      rows[N, M] (dense) -> rows[N, M],
//   inverse[N], counts[N], number: the first `number` rows and counts mean something. Attribute `consecutive`: compares
//   neighbours only, else sorts lu_factor, lu_solve, cholesky, qr, svd, eigh, …   factorizations of matrices by LAPACK:
//   runtime/ops/lapack/matrices.h
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/views/bound_view.h"

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
  /// On another device: whether the host does the work (runtime/device/host_detour.h), so that it cannot be recorded.
  /// Valid after `prepare`.
  virtual bool runs_on_host() const { return false; }
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) = 0;
};

using LibraryFactory = std::function<std::unique_ptr<LibraryOp>(const Attributes&)>;

/// Makes a call site on the CPU; throws Error naming the operation when this build has none.
std::unique_ptr<LibraryOp> make_library_op(std::string_view op, const Attributes&);
bool has_library_op(std::string_view op, DeviceType = DeviceType::CPU);
/// Whether a call of the operation can be made for the device, by a form of its own or by the host's.
bool carries_out(std::string_view op, DeviceType);
/// Whether the device has no form of an operation, but the host carries it out for it (runtime/device/host_detour.h).
bool leaves_to_host(std::string_view op, DeviceType);
void define_library_op(std::string_view op, LibraryFactory);

class Queue;
/// On another device: the call site works on the queue, which outlives it. Operations that the host carries out for the
/// device are made too.
using QueueLibraryFactory = std::function<std::unique_ptr<LibraryOp>(const Attributes&, Queue&)>;
std::unique_ptr<LibraryOp> make_library_op(Queue&, std::string_view op, const Attributes&);
void define_library_op(DeviceType, std::string_view op, QueueLibraryFactory);

/// A constant operand rearranged once into the form an operation likes best. `attributes` to add to the call
/// (`packed_desc`), `bytes` to store.
struct Packed {
  Attributes attributes;
  Tensor bytes;
};
/// Packs operand `input` (a weight) for calls of `op` with these attributes whose other operands look like `inputs`
/// (sizes are hints where symbolic), for machines with `isa` (support/cpu.h). Nothing when packing gains nothing.
std::optional<Packed> pack_operand(std::string_view op, const Attributes&, std::span<const BoundView> inputs,
                                   std::span<const BoundView> outputs, std::size_t input, const Tensor& value,
                                   std::string_view isa);

}  // namespace coil::runtime
