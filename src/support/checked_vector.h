// A vector for lists that come from outside, sizes and arguments of calls: an index beyond its end is an error, never
// another value's memory.
#pragma once
#include <vector>

#include "support/error.h"

namespace coil {

/// A list has fewer items than its reader expects. Shape functions index their arguments by what a schema promises,
/// which a graph from outside may not keep.
class BeyondEnd : public Error {
 public:
  BeyondEnd(std::size_t index, std::size_t size);
};
[[noreturn]] COIL_EXTENSION_API void fail_beyond(std::size_t index, std::size_t size);

template <class T>
class CheckedVector : public std::vector<T> {
 public:
  using Base = std::vector<T>;
  using Base::Base;
  CheckedVector() = default;
  CheckedVector(Base v) : Base(std::move(v)) {}  // NOLINT: the same list

  T& operator[](std::size_t i) { return check(i), Base::operator[](i); }
  const T& operator[](std::size_t i) const { return check(i), Base::operator[](i); }
  T& front() { return check(0), Base::front(); }
  const T& front() const { return check(0), Base::front(); }
  T& back() { return check(0), Base::back(); }
  const T& back() const { return check(0), Base::back(); }

 private:
  void check(std::size_t i) const {
    if (i >= this->size()) [[unlikely]]
      fail_beyond(i, this->size());
  }
};

}  // namespace coil
