// Values that repeat themselves: broadcast before they are computed.
#pragma once
#include <unordered_map>

#include "fx/graph.h"
#include "target/target.h"

namespace coil::passes {

/// Finds of values what they repeat, over elementwise operators and reductions of broadcast operands:
/// `exp(expand(x))` is `expand(exp(x))`. New nodes stand before the ones that they are for; those that end up without
/// a reader are the caller's to remove.
class Repeats {
 public:
  Repeats(fx::GraphModule& m, const target::Target& target) : m_(m), target_(target) {}

  /// The value with sizes of 1 in dimensions where it is one thing repeated, of the same rank; itself where there are
  /// none. It broadcasts to what it stands for.
  fx::Node* once(fx::Node*);

 private:
  fx::Node* found(fx::Node*);
  fx::Node* of_expand(fx::Node*);
  fx::Node* of_elements(fx::Node*);
  fx::Node* of_reduction(fx::Node*);

  fx::GraphModule& m_;
  const target::Target& target_;
  std::unordered_map<fx::Node*, fx::Node*> known_;
};

}  // namespace coil::passes
