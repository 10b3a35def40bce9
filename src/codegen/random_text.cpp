#include "codegen/random_text.h"

#include <fmt/format.h>

namespace coil::codegen {

std::string random_text(std::string_view function) {
  return fmt::format(R"(
template <class V, class K> {} void c_philox(V& a, V& b, V& c, V& d, K k0, K k1) {{
#pragma unroll
  for (int round = 0; round < 10; ++round) {{
    const auto p = c_wide_mul(a, 0xD2511F53u), q = c_wide_mul(c, 0xCD9E8D57u);
    const V e = c_high_of(q) ^ b ^ k0, g = c_high_of(p) ^ d ^ k1;
    a = e; b = c_low_of(q); c = g; d = c_low_of(p);
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }}
}}
)",
                     function);
}

}  // namespace coil::codegen
