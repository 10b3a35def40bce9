#include "library_ops/recurrent.h"

#include "library_ops/products.h"
#include "library_ops/table.h"

namespace coil::library_ops {
namespace {

using namespace recurrent;

/// `first`: what the names of a layer's operands and results begin with.
std::vector<Operand> layer_operands(const std::string& first, std::string sentence) {
  return {{first + "gates", "[T, B, G H]", std::move(sentence)},
          {first + "hidden", "[B, P]"},
          {.name = first + "cell", .sizes = "[B, H]", .when = When(kMode, std::string(kLstm))},
          {first + "weight", "[G H, P]"},
          {.name = first + "bias", .sizes = "[G H]", .when = When(kBias)},
          {.name = first + "projection", .sizes = "[P, H]", .when = When(kHasProjection)}};
}

std::vector<Operand> layer_results(const std::string& first) {
  return {{first + "sequence", "[T, B, P]"},
          {first + "hidden", "[B, P]"},
          {.name = first + "cell", .sizes = "[B, H]", .when = When(kMode, std::string(kLstm))}};
}

std::vector<Operand> followed_by(std::vector<Operand> all, const std::vector<Operand>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::vector<Descriptor> recurrent_ops() {
  const std::string gates =
      "the input's share, its bias included; gates in torch.nn's order (lstm: i f g o; gru: r z n)";
  return {
      {.name = std::string(kName),
       .sentence = "One direction of one layer of a recurrent network over a sequence of T steps.",
       .operands = layer_operands("", gates),
       .results = layer_results(""),
       .attributes = {kMode, kReverse, kBias, kHasProjection, kBatchInvariant}},
      {.name = std::string(kPairName),
       .sentence = "Two of them, of sizes of their own, that do not read one another's results, such as the two "
                   "directions of a layer: side by side where a step of each is work for few threads.",
       .operands = followed_by(layer_operands("", gates), layer_operands("second_", "as `gates`")),
       .results = followed_by(layer_results(""), layer_results("second_")),
       .attributes = {kMode, kReverse, kSecondReverse, kBias, kHasProjection, kBatchInvariant}},
  };
}

}  // namespace coil::library_ops
