// Which operators give views of what they take, how to make such a view again, and how to write a new value back
// through it.
#pragma once
#include <functional>
#include <optional>

#include "fx/graph.h"

namespace coil::passes {

/// Whether eager gives back the very tensor it was given (its first argument), or an alias that sees the same elements
/// in the same way: `detach`, `contiguous` of a contiguous tensor, `to` that changes nothing, dropout in inference,
/// views that change no size or stride. Decided by the recorded metadata.
bool gives_back_input(const fx::Node&);

/// Whether the result (or each of several results) is a view of the first argument. Operators that view or copy as the
/// layout demands (`reshape`, `contiguous`, `to`, `flatten`) are decided by the recorded metadata, as eager decides
/// them.
bool is_view_of_input(const fx::Node&, sym::ShapeEnv&);

/// Whether the results are views of the tensors in the list that is the first argument (`broadcast_tensors`,
/// `meshgrid`), or the one tensor in it is the result.
bool views_of_list(const fx::Node&);

/// One view operator applied to a tensor: enough to apply it again to another value of that tensor.
struct ViewStep {
  std::string target;
  ops::Values args;                  ///< the viewed tensor first
  std::optional<std::size_t> piece;  ///< of an operator with several results (`split`, `unbind`), which
  sym::Exprs starts;                 ///< of `split` and its kin: where each piece begins
};

/// What a view node does; for a piece of a list of views the node is the one that makes the list.
ViewStep view_step(const fx::Node&, std::optional<std::size_t> piece = {});

/// Whether several elements of the view may lie in one place where those of the viewed tensor do not.
bool repeats_elements(const sym::ShapeEnv&, const ViewStep&, const sym::TensorMeta& viewed,
                      const sym::TensorMeta& view);

/// Whether the view has other values than the memory that it sees: it is read negated or conjugated.
bool changes_values(const ViewStep&, const sym::TensorMeta& viewed);

/// The view of `viewed` that the step describes. `result` is the metadata that the view had in the program.
fx::Node* apply_view(fx::GraphModule&, const fx::Node* from, const ViewStep&, fx::Node* viewed,
                     const sym::TensorMeta& result);

/// The value of the viewed tensor after `written` went to the view of it. `viewed` makes its value before that, where
/// it is needed. Throws Error for views through which no write is defined (overlapping elements).
fx::Node* write_back(fx::GraphModule&, const fx::Node* from, const ViewStep&, const sym::TensorMeta& viewed_meta,
                     const std::function<fx::Node*()>& viewed, fx::Node* written);

}  // namespace coil::passes
