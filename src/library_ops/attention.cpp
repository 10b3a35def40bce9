#include "library_ops/attention.h"

#include "library_ops/table.h"

namespace coil::library_ops {
namespace {

Operand attention_mask() {
  return {.name = "mask",
          .sizes = "broadcast to [B, H, S, T]",
          .sentence = "bool: what is seen; else added to the scores",
          .when = When(attention::kHasMask)};
}

std::vector<AttributeInfo> attention_attributes() {
  return {attention::kCausal, attention::kScale, attention::kHasMask};
}

Operand logs(bool optional) {
  return {.name = "logs",
          .sizes = "[B, H, S]",
          .sentence = "logarithms of the sums of the queries' exponentials, f32",
          .optional = optional};
}

}  // namespace

std::vector<Descriptor> attention_ops() {
  using namespace attention;
  const Operand q{"q", "[B, H, S, D]"}, k{"k", "[B, G, T, D]", "H is a multiple of G"}, v{"v", "[B, G, T, E]"},
      dy{"dy", "[B, H, S, E]"}, y{"y", "[B, H, S, E]"}, sums{"sums", "[B, H, S]", "sums over E of dy y, f32"};
  return {
      {.name = std::string(kName),
       .sentence =
           "y = softmax(scale q kᵀ + mask) v for each head: by a kernel on the CPU, by cuDNN on CUDA in 16 bits.",
       .operands = {q, k, v, attention_mask()},
       .results = {y, logs(true)},
       .attributes = attention_attributes()},
      {.name = std::string(kBackward),
       .sentence = "Attention's gradients: by a kernel on the CPU, whose dq is f32; by cuDNN on CUDA in 16 bits, where "
                   "what is added up for dq may come in another order from run to run.",
       .operands = {dy, q, k, v, y, logs(false), attention_mask()},
       .results = {{"dq", "like q"}, {"dk", "like k"}, {"dv", "like v"}},
       .attributes = attention_attributes()},
      {.name = std::string(kBlocked),
       .sentence = "Attention in f32 on a GPU, block by block of queries.",
       .operands = {q, k, v, attention_mask()},
       .results = {y, logs(true)},
       .attributes = attention_attributes(),
       .traits = {Trait::Kernel}},
      {.name = std::string(kBlockedQueries),
       .sentence = "The gradient of attention's queries in f32 on a GPU, and sums that that of its keys needs.",
       .operands = {dy, q, k, v, y, logs(false), attention_mask()},
       .results = {{"dq", "like q"}, sums},
       .attributes = attention_attributes(),
       .traits = {Trait::Kernel}},
      {.name = std::string(kBlockedKeys),
       .sentence = "The gradients of attention's keys and values in f32 on a GPU.",
       .operands = {dy, q, k, v, logs(false), sums, attention_mask()},
       .results = {{"dk", "like k"}, {"dv", "like v"}},
       .attributes = attention_attributes(),
       .traits = {Trait::Kernel}},
  };
}

}  // namespace coil::library_ops
