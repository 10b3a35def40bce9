#include "library_ops/checks.h"

#include "library_ops/table.h"

namespace coil::library_ops {

std::vector<Descriptor> check_ops() {
  using namespace checks;
  return {
      {.name = std::string(kAllBounded),
       .sentence =
           "1 where the flag given is 1 and no element of x is NaN or greater in magnitude than a limit, else 0. "
           "The compiler looks so at operands of products whose post-operations lose NaN.",
       .operands = {{"x", "any", "f32, bf16 or f16"},
                    {.name = "flag", .sizes = "[1]", .sentence = "i32", .optional = true}},
       .results = {{"flag", "[1]", "i32"}},
       .attributes = {kLimit}},
      {.name = std::string(kFinite),
       .sentence = "Fails where x holds NaN or an infinity.",
       .operands = {{"x", "any"}},
       .results = {},
       .attributes = {kWhat, kNoNan, kNoInfinity},
       .traits = {Trait::Assertion}},
      {.name = std::string(kAligned),
       .sentence = "Fails where x does not lie at a multiple of some bytes.",
       .operands = {{"x", "any"}},
       .results = {},
       .attributes = {kWhat, kBytes},
       .traits = {Trait::Assertion, Trait::ReadsAddress}},
  };
}

}  // namespace coil::library_ops
