// Attention in f32 as kernels in Triton, forward and its gradients.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "codegen/kernel.h"
#include "target/target.h"

namespace coil::codegen {

/// Whether it is one of `blocked_attention`, `blocked_attention_queries` and `blocked_attention_keys`.
bool is_blocked_attention(std::string_view op);
/// The kernel of such a call, or why Triton has none.
std::variant<Kernel, std::string> triton_attention(ir::Graph&, const ir::Extern& call, const target::Costs&);

}  // namespace coil::codegen
