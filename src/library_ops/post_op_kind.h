// What can follow a product or a convolution. Alone in its file for code that is compiled for one instruction set and
// may include nothing with inline functions.
#pragma once

namespace coil::library_ops {

/// In the order of the table in library_ops/post_ops.cpp.
enum class PostOpKind {
  Relu,
  GeluErf,
  GeluTanh,
  Silu,
  Sigmoid,
  Tanh,
  Clip,
  HardSwish,
  HardSigmoid,
  Elu,
  LeakyRelu,
  Scale,
  Add,
  Mul,  ///< with the next operand
  Sum,  ///< with what the output holds
};

}  // namespace coil::library_ops
