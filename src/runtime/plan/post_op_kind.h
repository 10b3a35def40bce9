// What can follow a product or a convolution. Alone in its file for code that is compiled for one instruction set and
// may include nothing with inline functions.
#pragma once

namespace coil::runtime {

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

}  // namespace coil::runtime
