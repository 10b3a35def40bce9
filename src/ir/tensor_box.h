// What lowering passes around: a view of a storage that is a buffer already, or still a loop body that consumers may
// absorb.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "ir/realize_limits.h"

namespace coil::ir {

/// A value before it has a buffer (a Pointwise or Reduction body), or the buffer. Shared by all views of it; realising
/// happens once, for all.
struct StorageBox {
  Graph* graph = nullptr;
  DType dtype = DType::F32;  ///< of the elements as stored
  Device device;
  Exprs sizes;            ///< of the storage's own loop nest or buffer
  Exprs strides;          ///< proposal for its layout: eager's
  Scalar body = nullptr;  ///< unrealised: over i0, i1, … in register_type(dtype); null once realised
  std::optional<BufferId> buffer;
  bool as_stored = false;  ///< 16-bit floats that are read rounded even where they are computed where they are read
  std::set<std::string> origins;
  std::string where;
  int uses = 0;  ///< loads made of it so far

  bool realized() const { return buffer.has_value(); }
};

/// A tensor value: sizes, and for each dimension of the storage the index expression over the view's own variables i0,
/// i1, …: expand, permute, squeeze, slice, reshape are all such maps, and views compose by substitution. `linear` maps
/// have one expression, counting elements from the start of a realised buffer (as_strided).
class TensorBox {
 public:
  std::shared_ptr<StorageBox> storage;
  Exprs sizes;
  Exprs map;
  bool linear = false;
  DType dtype() const { return storage->dtype; }
  Device device() const { return storage->device; }
  std::size_t rank() const { return sizes.size(); }

  /// The element at `index` (one expression per dimension) as a scalar in register_type(dtype()); inlines an unrealised
  /// storage's body. `loops` are the variables in scope with their sizes, for simplification.
  Scalar load(std::span<const Expr> index, std::span<const sym::LoopVar> loops, Scalar mask = nullptr,
              std::vector<Scalar> indirect = {}) const;
  /// A view: `index` gives, over the new view's variables i0…, this tensor's index.
  TensorBox view(Exprs new_sizes, Exprs index) const;
  /// Gives the storage a buffer (a Pointwise operation computing its body) unless it has one. Returns it.
  BufferId realize() const;
  /// Whether it shows all of its storage, element by element as it is.
  bool is_whole() const;
  /// The value as a strided window on its (realised) buffer; nothing when the map is not affine with settled strides,
  /// in which case `contiguous` copies first.
  std::optional<BufferView> strided() const;
  /// The value, which has no buffer yet, as a strided window on the buffer that it is nothing but a copy of: nothing
  /// where it is more, or where the window does not suit the caller.
  std::optional<BufferView> copied(const std::function<bool(const BufferView&)>& suits) const;

 private:
  /// The window whose elements lie at `at`, counted from the buffer's start, over i0, i1, ….
  std::optional<BufferView> window(BufferId, Expr at) const;
  /// Whether an element at a place that data decides is better computed there than the whole tensor before.
  bool computes_at(std::span<const sym::LoopVar> loops) const;
};

/// Variables of a loop nest with their sizes: i0, i1, … over `sizes`, r0, r1, … over `reduced`.
std::vector<sym::LoopVar> loop_vars(Graph&, const Exprs& sizes, const Exprs& reduced = {});

/// A new unrealised value: body over i0… in register_type(dtype). `strides` is the proposed layout (empty: dense
/// row-major).
TensorBox make_pointwise(Graph&, DType, Device, Exprs sizes, Scalar body, Exprs strides = {});
/// Whether what a reduction reads is read once more when its result is known, as a norm or a softmax does.
enum class ReadAgain : bool { No, Yes };
/// A new buffer filled by a reduction. Large reductions to few elements are split in two, so that threads share the
/// work; not rows that are read again and that neighbouring blocks can hold until then.
TensorBox make_reduction(Graph&, DType, Device, Exprs sizes, Exprs reduced, ReductionKind, Scalar body,
                         Exprs strides = {}, ReadAgain = ReadAgain::No);
/// Dense strides in the order of `strides`: themselves when they are dense, else packed without gaps; row-major where
/// they tell nothing (broadcast dimensions, empty).
Exprs dense_strides(const sym::ShapeEnv&, const Exprs& sizes, const Exprs& strides);
/// The value that changes nothing in a reduction.
Scalar neutral(ScalarPool&, ReductionKind, DType register_type);
/// Whether computing a body again costs more than reading it from memory: a transcendental function, several reads, or
/// more than a few operations.
bool is_costly(Scalar body);
/// The value as a view that repeats, where its body is the same all along leading dimensions (all but the last two):
/// what is stored of it then is one of each. Itself where there is nothing to gain.
TensorBox made_once(const TensorBox&);
/// A buffer's whole value.
TensorBox whole(Graph&, BufferId);
/// A realised dense row-major copy, or itself when it is one.
TensorBox contiguous(const TensorBox&);

/// Whether a library's call may compute a value on its way out: nothing else reads the call's result.
enum class JoinsCall : bool { No, Yes };
/// Called after each node is lowered, with how many fx users it has: realises it when a limit is passed, or when
/// several users would compute again what is costly, or read more bytes again than the value has.
void realize_by_policy(const TensorBox&, std::size_t users, const RealizeLimits&, JoinsCall = JoinsCall::Yes);
/// Called before a node is lowered: realises an operand that puts together several values of its own size, when the
/// other operands bring one more that no loop makes. A sum that takes in result after result of library calls would
/// have them all live at once; as operations of their own its parts still share a kernel where that costs no memory.
void realize_before_more(const TensorBox&, std::span<const TensorBox> others);

}  // namespace coil::ir
