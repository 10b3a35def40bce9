#include "library_ops/recurrent.h"

#include "library_ops/products.h"
#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> recurrent_ops() {
  using namespace recurrent;
  const When lstm(kMode, std::string(kLstm));
  return {
      {.name = std::string(kName),
       .sentence = "One direction of one layer of a recurrent network over a sequence of T steps.",
       .operands = {{"gates", "[T, B, G H]",
                     "the input's share, its bias included; gates in torch.nn's order (lstm: i f g o; gru: r z n)"},
                    {"hidden", "[B, P]"},
                    {.name = "cell", .sizes = "[B, H]", .when = lstm},
                    {"weight", "[G H, P]"},
                    {.name = "bias", .sizes = "[G H]", .when = When(kBias)},
                    {.name = "projection", .sizes = "[P, H]", .when = When(kHasProjection)}},
       .results = {{"sequence", "[T, B, P]"}, {"hidden", "[B, P]"}, {.name = "cell", .sizes = "[B, H]", .when = lstm}},
       .attributes = {kMode, kReverse, kBias, kHasProjection, kBatchInvariant}},
  };
}

}  // namespace coil::library_ops
