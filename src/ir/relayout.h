// Other strides for a computed buffer, in its layout and in every library call and result that takes it whole.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace coil::ir {

/// Views of each buffer in library calls and among the results.
using BufferViews = std::unordered_map<BufferId, std::vector<BufferView*>>;
BufferViews views_in_calls(Graph&, std::span<Operation>);
/// Whether a view shows all of a buffer of this layout, as it lies.
bool is_whole(const BufferView&, const Layout&);

/// Gives a computed buffer other strides, in its layout and in the library calls that take it, whole or a range of each
/// dimension. Does nothing and returns false when its layout is settled or a call sees it in other ways.
bool relayout(Graph&, BufferId, const Exprs& strides);
/// The same where the views of the buffer are known.
bool relayout(Graph&, BufferId, const Exprs& strides, const std::vector<BufferView*>& views);
/// The dimension whose neighbours are neighbours in memory.
std::optional<std::size_t> innermost(const Exprs& sizes, const Exprs& strides);
/// Strides with dimension `channel` innermost, the others in order: [N, H, W, C] in memory.
Exprs channels_last(const Exprs& sizes, std::size_t channel = 1);
/// Whether a view has the strides of `channels_last`, but for dimensions of size 1.
bool lies_channels_last(const BufferView&);

}  // namespace coil::ir
