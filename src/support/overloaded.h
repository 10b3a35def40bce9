// One visitor out of several lambdas, for std::visit.
#pragma once

namespace coil {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // Clang 16 does not deduce it for aggregates

}  // namespace coil
