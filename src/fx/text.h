// The text form of graphs: follows torch.fx's print, with types; prints and parses back.
//
//     graph(s0: [1, 100] = 3):
//         %x : f32[s0, 16] = placeholder[target=x]
//         %w : f32[16] = get_attr[target=lin.weight]
//         %add : f32[s0, 16] = call_function[target=aten.add.Tensor](args = (%x, %w), kwargs = {alpha: 2})
//         return (%add,)
//
// Size symbols are declared in the header line with range and hint, when there are any. Arguments equal to the schema's
// defaults are left out. `#` starts a comment; `# at model.py:12` after a node is its source line, `# from add_1` its
// origins. A size that is named as a dtype is (torch's ninth of its kind is `u8`) stands in parentheses where a dtype
// may. A node's type is its metadata: a tensor, a list of those, a symbolic number (`s0`, `Bool(s0 < 4)`,
// `SymFloat(mul)`); none where there is none. Paths of inputs and outputs that differ from the names, mutations and
// subgraphs follow the graph:
//
//     input %state_h "state.h"
//     input %k "k" = 3
//     output "y.0"
//     mutation input state_h = 1
//     mutation attribute counter = 2
//     subgraph true_graph_0:
//         graph():
//             …
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fx/graph.h"

namespace coil::fx {

struct PrintOptions {
  bool locations = false;  ///< `# at …`
  bool origins = false;    ///< `# from …`
};

/// The path of a result that has no better name: `output` for one, `0`, `1`, … for several.
std::string plain_output_name(std::size_t index, std::size_t count);
/// Whether the text form gives this word a meaning of its own, so that no symbol can have it.
bool is_reserved(std::string_view word);

std::string to_string(const GraphModule&, PrintOptions = {});
/// Each node of the graph and its subgraphs with its line of the text, in order.
std::vector<std::pair<std::string, std::string>> node_lines(const GraphModule&, PrintOptions = {});
/// Throws Error with line and column. Attributes get no values (a `get_attr` keeps its declared type).
std::unique_ptr<GraphModule> parse(std::string_view text);

}  // namespace coil::fx
