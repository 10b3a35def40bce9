// What an operator that is called in torch is given for tensors: the program's memory, for the length of the call.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/device/library.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace coil::python {

namespace nb = nanobind;

/// The arguments of the call of a graph that this thread is in, and what the program reads them as. An operator that is
/// given one of them whole gets the very object, as in eager.
class CallArguments {
 public:
  /// For the time that this object lives. Argument `places[i]` is tensor `i`, but where `replaced` has something else
  /// in its place.
  CallArguments(PyObject* const* arguments, std::span<const std::size_t> places, std::span<const Tensor> tensors,
                std::span<const nb::object> replaced);
  ~CallArguments();
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  /// Null where the view is none of them.
  static nb::object find(const runtime::BoundView&, const void* data);

 private:
  PyObject* const* arguments_;
  std::span<const std::size_t> places_;
  std::span<const Tensor> tensors_;
  std::span<const nb::object> replaced_;
  const CallArguments* outer_;
};

/// The operands of one call site. An operator may keep one (in a list, a view of it, for work that goes on), and eager
/// lets it; the program uses the memory again. Whether it does is seen when the call is over, by who still holds on to
/// the memory: the first call, and all after one that kept something, are given copies.
class Lending {
 public:
  struct Given {
    nb::object tensor;
    runtime::BoundView view;
    void* data = nullptr;
    std::weak_ptr<std::byte> memory;  ///< of what may not be kept; empty for an argument of the graph's own call
    bool is_copy = false;
  };
  using Call = std::vector<Given>;

  /// `may_keep`: nobody knows that the operator keeps nothing.
  explicit Lending(bool may_keep) : may_keep_(may_keep), copies_(may_keep) {}

  nb::object give(Call&, const runtime::BoundView&, const void* data) const;
  /// Memory that the operator writes to.
  nb::object give_to_write(Call&, const runtime::BoundView&, void* data) const;
  /// After the call; nobody but the operator may hold on to what it was given. A tensor that it keeps is given memory
  /// of its own.
  void end(Call&);

  /// Memory that the program owns, as a tensor for the length of the call.
  Tensor borrowed(const runtime::BoundView&, void* data) const;

 private:
  nb::object add(Call&, const runtime::BoundView&, void* data, bool copy) const;
  Tensor copied(const runtime::BoundView&, void* data) const;

  bool may_keep_, copies_, keeps_ = false;
};

}  // namespace coil::python
