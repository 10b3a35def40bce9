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
      {.name = std::string(kTrainingName),
       .sentence = "A direction of a layer that is `lstm` or `gru`, with what its gradients need.",
       .operands = layer_operands("", gates),
       .results = followed_by(
           layer_results(""),
           {{"saved", "[T, B, 4 H]", "the gates as they are used, of a gru also what the state adds to the last"},
            {.name = "cells", .sizes = "[T, B, H]", .when = When(kMode, std::string(kLstm))}}),
       .attributes = {kMode, kFromEnd, kBias, kHasProjection, kBatchInvariant}},
      {.name = std::string(kBackwardName),
       .sentence = "The gradients of a direction of a layer, which runs over the steps the other way round.",
       .operands = {{"grads", "[T, B, P]", "of the hidden states"},
                    {"grad_hidden", "[B, P]", "of the last one"},
                    {.name = "grad_cell", .sizes = "[B, H]", .when = When(kMode, std::string(kLstm))},
                    {"saved", "[T, B, S H]", "of `recurrent_training`; of the others the hidden states"},
                    {.name = "cells", .sizes = "[T, B, H]", .when = When(kMode, std::string(kLstm))},
                    {"weight", "[G H, P]"},
                    {.name = "projection", .sizes = "[P, H]", .when = When(kHasProjection)},
                    {.name = "previous",
                     .sizes = "[T, B, H]",
                     .sentence = "the cells of an lstm, the hidden states of a gru, before each step",
                     .optional = true}},
       .results = {{"grad_gates", "[T, B, G H]"},
                   {"grad_hidden", "[B, P]"},
                   {.name = "grad_cell", .sizes = "[B, H]", .when = When(kMode, std::string(kLstm))}},
       .attributes = {kMode, kFromEnd, kHasProjection, kBatchInvariant}},
  };
}

}  // namespace coil::library_ops
