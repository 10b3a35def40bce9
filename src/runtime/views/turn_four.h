// Matrices turned in squares of four by four elements, in vectors of any machine.
#pragma once
#include <cstdint>
#include <cstring>

namespace coil::runtime {

/// Four rows of four elements become four columns.
template <class T>
inline void turn_four(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T))));
  Four r[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&r[i], from + i * from_step, sizeof(Four));
  const Four low01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
             high01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
             low23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
             high23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  const Four turned[] = {
      __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
      __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_step, &turned[i], sizeof(Four));
}

}  // namespace coil::runtime
