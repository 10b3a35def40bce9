// The counter-based generator that kernels draw random numbers from: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// Element i of operator number n has word i mod 4 of the block with key (the seed's low and high half) and counter (i /
// 4 low, i / 4 high, n, 0). Nothing else goes in, so that a value is the same wherever, how often and on whatever
// device it is computed.
//
// Ten rounds on the words a, b, c, d under a key, over `c_wide_mul`, `c_high_of` and `c_low_of`, which each device has
// for its numbers or vectors.
#pragma once

// @piece c_philox
#ifndef COIL_LOCAL
#define COIL_LOCAL
#endif
template <class V, class K>
COIL_FN void c_philox(COIL_LOCAL V& a, COIL_LOCAL V& b, COIL_LOCAL V& c, COIL_LOCAL V& d, K k0, K k1) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC unroll 10
#else
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const auto p = c_wide_mul(a, 0xD2511F53u), q = c_wide_mul(c, 0xCD9E8D57u);
    const V e = c_high_of(q) ^ b ^ k0, g = c_high_of(p) ^ d ^ k1;
    a = e;
    b = c_low_of(q);
    c = g;
    d = c_low_of(p);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
