// What the families share: elements of operands, results shaped by metadata, broadcast, operands of library calls, and
// the families themselves.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/element.h"
#include "lowering/lowering.h"

namespace coil::lowering {

using ir::BufferView;
using ir::ReductionKind;
using ir::register_type;
using ir::ScalarOp;

using Table = std::map<std::string, LoweringFunction, std::less<>>;

// Each adds a family's operators; one file each.
void add_arithmetic(Table&);
void add_special_functions(Table&);
void add_activations(Table&);
void add_casts(Table&);
void add_creation(Table&);
void add_random(Table&);
void add_views(Table&);
void add_concatenation(Table&);
void add_indexing(Table&);
void add_scatter(Table&);
void add_reductions(Table&);
void add_normalization(Table&);
void add_normalization_gradients(Table&);
void add_window_gradients(Table&);
void add_scans(Table&);
void add_pooling(Table&);
void add_resampling(Table&);
void add_linear_algebra(Table&);
void add_factorizations(Table&);
void add_convolution(Table&);
void add_attention(Table&);
void add_recurrent(Table&);
void add_fourier(Table&);
void add_data_dependent(Table&);
void add_control_flow(Table&);
void add_numbers(Table&);
void add_user_kernels(Table&);
void add_collectives(Table&);

/// States that two sizes are equal. Sizes that depend on data and may differ are compared when the program runs, which
/// fails if they do.
void require_equal(Context&, Expr, Expr);
/// The element of a tensor broadcast to `sizes`, at i0, i1, …
Element element(Context&, const TensorBox&, const Exprs& sizes);
/// The element at `index` in a nest of `sizes` and `reduced`.
Element element_at(Context&, const TensorBox&, const Exprs& index, const Exprs& sizes, const Exprs& reduced = {},
                   Scalar mask = nullptr);
/// A tensor argument's element broadcast to `sizes`, or a number, in this register type.
Element operand(Context&, const ops::Value& arg, const Exprs& sizes, DType register_type);

Element number(Context&, DType register_type, double);
/// Whether an argument is this number.
bool is_number(const ops::Value&, double);
/// One value for each of n dimensions, where a single one stands for all.
template <class T>
std::vector<T> spread(std::vector<T> values, std::size_t n) {
  if (values.size() == 1) values.resize(n, values[0]);
  return values;
}
Element index_value(Context&, Expr);
Element condition(Context&, Expr);
/// `n` up to a multiple of `step`.
inline std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// torch.result_type of tensors and numbers: categories of dimensioned tensors win over those of 0-d tensors, these
/// over numbers'.
DType promoted(Context&, std::span<const ops::Value* const> args);

/// The node's result from its body over i0, i1, …: converted to the recorded dtype, laid out as recorded.
TensorBox result(Context&, Element body);
TensorBox result(Context&, Element body, const sym::TensorMeta&);
/// The same tensor before it is rounded: floats of 16 bits in the type that they are computed in.
sym::TensorMeta unrounded(sym::TensorMeta);
/// What was computed in a wider type, rounded to that of the operator's result.
TensorBox in_result_dtype(Context&, const TensorBox&);
/// An unrealised value of another dtype or shape on the node's device.
TensorBox pointwise(Context&, DType, const Exprs& sizes, Element body, const Exprs& strides = {});
TensorBox reduction(Context&, DType, const Exprs& sizes, const Exprs& reduced, ReductionKind, Element body,
                    const Exprs& strides = {}, ir::ReadAgain = ir::ReadAgain::No);

/// Dimensions that a reduction runs over, and how it indexes its operand.
struct Axes {
  std::vector<bool> is_reduced;  ///< for each dimension of the operand
  Exprs sizes;                   ///< of the result: reduced dimensions are 1 or left out
  Exprs reduced;                 ///< sizes of the reduced dimensions
  Exprs index;                   ///< the operand's index over i and r
  Expr count = 1;                ///< elements reduced to one
  ir::ReadAgain again = ir::ReadAgain::No;
};
/// `dims` empty means all dimensions.
Axes reduced_axes(Context&, const TensorBox&, const std::vector<std::int64_t>& dims, bool keep);
/// A realised reduction of `f(element)` in this register type.
TensorBox reduce_over(Context&, const TensorBox&, const Axes&, ReductionKind, DType register_type,
                      const std::function<Element(Element)>& f = {});
/// The result of a reduction over `axes`, as an operand at the same index i and r that the reduction's own operand has.
Element reduced_value(Context&, const TensorBox& reduced, const Axes&);

/// A view that repeats dimensions of size 1 (and new leading ones) to `sizes`; realises what is costly to compute
/// again.
TensorBox expand(Context&, const TensorBox&, const Exprs& sizes);
TensorBox permute(Context&, const TensorBox&, const std::vector<std::size_t>& order);
/// A view of the same elements in row-major order.
TensorBox reshape(Context&, const TensorBox&, const Exprs& sizes);
TensorBox unsqueeze(Context&, const TensorBox&, std::size_t dim);

/// A library operand: the realised tensor as a strided window (a dense copy where it is none).
BufferView library_operand(const TensorBox&);
/// Whether each row (the last dimension) is dense and starts at a multiple of so many bytes, at every index of the
/// other dimensions. A stride of 0 is allowed there.
bool lies_in_vectors(const BufferView&, std::int64_t bytes);
/// A library operand for an operation that takes it in any layout. If the operand is a range of each dimension of a
/// computed value, the layout of that value stays open until layouts are chosen (ir/relayout.h).
BufferView open_operand(Context&, const TensorBox&);
/// A float as it would be stored in this type, to which 16 bits round it; what is no float as it is.
Element as_stored(Element, DType);
/// An I64 index into a dimension of this size, counted from its start where it is negative and counts from the end.
Element from_either_end(Context&, Element index, Expr size, const std::vector<sym::LoopVar>& loops);
/// An index that is data, as an index expression. The value is checked against `size` and joins `indirect`, and the
/// result is its variable x<k>. A value that is an index expression and certainly in range is returned as it is.
Expr indirect_index(Context&, Element index, Expr size, const std::vector<sym::LoopVar>& loops,
                    std::vector<Scalar>& indirect);

/// Combines `body` over i0… < sizes into place `index` of a realised value, x0, x1, … standing for `indirect`.
void scatter_into(Context&, const TensorBox& out, const Exprs& sizes, Element body, Exprs index,
                  std::vector<Scalar> indirect, ir::StoreMode, bool apart = false);
/// Whether the device has no way for several threads to update an element of this type together.
bool lacks_update(Context&, DType stored, ir::StoreMode);
/// Does what scatter_into does, by sorting (sorted_scatter.cpp); false, and nothing done, where the result depends on
/// no order and the device has such updates.
bool scatter_in_order(Context&, const TensorBox& out, const Exprs& sizes, Element body, const Exprs& index,
                      const std::vector<Scalar>& indirect, ir::StoreMode);
/// Additions by the thousands to rows of f32, and the largest and smallest of rows of floats: the places are sorted and
/// each thread combines a piece of them, where that is less than combining each row with memory by itself. False, and
/// nothing done, where it is not known to be.
bool scatter_in_pieces(Context&, const TensorBox& out, const Exprs& sizes, Element body, const Exprs& index,
                       const std::vector<Scalar>& indirect, ir::StoreMode);
/// Running totals along one dimension, in memory: `body` over i0, i1, … < sizes.
TensorBox running_scan(Context&, DType, const Exprs& sizes, std::size_t dim, ir::ScanKind, Element body,
                       const Exprs& strides = {});
/// Elements in order, and their positions: by the library call `sort`, whose attributes these are, or in steps.
std::vector<TensorBox> ordered(Context&, const TensorBox&, library_ops::Attributes attributes, const Exprs& sizes);
/// Where an element of an edge-padded tensor lies in the tensor of these sizes; `pad` as torch lists it, from the last
/// dimension backwards.
Exprs edge_pad_index(Context&, const Exprs& sizes, const Exprs& pad, bool reflect);

/// Where a mask is true: for each of its dimensions the I64 coordinates, in row-major order. `count` is the size that
/// is recorded for how many there are.
std::vector<TensorBox> coordinates(Context&, const TensorBox& mask, Expr count);

/// The indices of index.Tensor, one a dimension (nothing where it is kept), with each mask spread into coordinates.
/// `recorded(at)`: what is recorded of the size that a mask brings, where its dimension comes to lie at `at` of the
/// result.
std::vector<std::optional<TensorBox>> spread_masks(Context&, const ops::Value& list, std::size_t rank,
                                                   const std::function<Expr(std::size_t at)>& recorded);

/// A new buffer for a library's result, laid out by proposal, and the window on it.
std::pair<TensorBox, BufferView> library_result(Context&, DType, const Exprs& sizes, const Exprs& strides = {});
/// The same elements in another place, moved by the library: complex numbers have no kernels.
ir::Extern library_move(const ir::BufferView& from, const ir::BufferView& into);
/// A tensor in memory of its own by such a move.
TensorBox library_copy(Context&, const TensorBox&, const Exprs& strides);
/// Writes one part of a buffer that several operations fill: for each point i0, i1, … below `sizes`, `body` goes to the
/// element at index `at`, which is an expression over these variables.
void store_part(Context&, ir::BufferId, const Exprs& sizes, Exprs at, Element body);
void add_library_call(Context&, std::string op, library_ops::Attributes attributes, std::vector<BufferView> inputs,
                      std::vector<BufferView> outputs);

/// The device of the node that is lowered: that of its results, or of its first operand if the results are numbers.
Device device_of(const Context&);

/// A dimension argument, counted from the end when negative.
std::size_t dimension(std::int64_t dim, std::size_t rank);
std::size_t dimension(Context&, const ops::Value&, std::size_t rank);
/// Constant integers; throws Error naming the operator when they are symbolic.
std::vector<std::int64_t> constants(Context&, const ops::Value&);
std::int64_t constant(Context&, const ops::Value&);
/// Whether an expression is this constant for certain.
bool is_one(Context&, const Expr&);
/// Refuses what the lowering can't do, naming operator and source line.
[[noreturn]] void refuse(const Context&, const std::string& why);
/// The same where the values of the sizes in an expression would do (sym::NeedsValue).
[[noreturn]] void refuse_free(const Context&, const std::string& why, const Expr&);

}  // namespace coil::lowering
