// Computes at compile time what depends on weights alone, by running the compiler on that part of the program.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "fx/graph.h"

namespace coil {

/// Whether Coil computes an operator itself, by its target.
using IsLowered = std::function<bool(std::string_view target)>;
/// Compiles and runs a module without inputs; gives its outputs.
using RunModule = std::function<std::vector<Tensor>(fx::GraphModule&)>;

/// Compiles and runs a module on inputs; gives its outputs.
using RunModuleOn = std::function<std::vector<Tensor>(fx::GraphModule&, std::span<const Tensor> inputs)>;

/// Values of nodes on given inputs, one for each input of the module. Only what they depend on is computed.
std::vector<Tensor> compute_on(const fx::GraphModule&, std::span<fx::Node* const>, const RunModuleOn&,
                               std::span<const Tensor> inputs);
/// Values of nodes that depend on no input: they follow from attributes by calls that give the same in every run, and
/// their sizes are known.
std::vector<Tensor> compute(const fx::GraphModule&, std::span<fx::Node* const>, const RunModule&);

/// Values that follow from unwritten attributes (and from positions, masks and fills beside them), where folding them
/// saves each call `min_work` elements of arithmetic in all (a compile of its own is not worth less) and the program
/// does not grow by more than it holds. Views of attributes stay views, and rows of them at positions stay there. So do
/// matrices that products of up to `few_rows` rows make of half as many bytes (target::Costs::rows_by_made_matrix).
std::vector<fx::Node*> constants_to_fold(const fx::GraphModule&, const IsLowered&, std::int64_t few_rows,
                                         std::int64_t min_work = 1 << 14);
/// Replaces those of them that something still reads by new attributes. Leaves what they were computed from to dead
/// code elimination.
void fold_constants(fx::GraphModule&, std::span<fx::Node* const>, std::span<const Tensor> values);

}  // namespace coil
