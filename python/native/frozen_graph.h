// A compiled graph that holds some of its inputs as constants, for as long as nobody writes to them.
#pragma once
#include <nanobind/nanobind.h>

#include <vector>

namespace coil::python {

namespace nb = nanobind;

/// What a frozen input was when its graph was compiled: an equal address and version counter mean equal values, but for
/// writes that torch does not count (through `.data`, through NumPy).
class FrozenGraph {
 public:
  /// `compile(tensors)` takes the tensors at `inputs` and gives the CompiledGraph that holds them, and whether it does:
  /// one that reads them as they come is never compiled again.
  FrozenGraph(std::vector<std::size_t> inputs, nb::callable compile)
      : inputs_(std::move(inputs)), compile_(std::move(compile)) {}

  /// Calls the graph as CompiledGraph::call does; compiles first where a tensor is another one, or was written to.
  nb::object call(PyObject** args, std::size_t count, bool lets_go);
  /// Compiles for these tensors, in the order of `inputs`.
  void prepare(nb::list tensors);
  /// The CompiledGraph of the last call; None before there is one.
  nb::object graph() const { return graph_.is_valid() ? graph_ : nb::none(); }

 private:
  struct Seen {
    const void* data = nullptr;
    std::int64_t version = -1;  ///< -1: torch counts no writes to it
    bool operator==(const Seen&) const = default;
  };
  static Seen look(PyObject* tensor);
  bool unchanged(PyObject* const* args) const;

  std::vector<std::size_t> inputs_;
  nb::callable compile_;
  std::vector<Seen> seen_;
  nb::object graph_;
};

}  // namespace coil::python
