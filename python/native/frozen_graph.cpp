#include "frozen_graph.h"

#include "compiled.h"
#include "exchange.h"
#include "support/error.h"

namespace coil::python {

FrozenGraph::Seen FrozenGraph::look(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_version");
  Seen seen{Exchange::get().address(tensor)};
  PyObject* version = PyObject_GetAttr(tensor, name);
  if (!version) {  // an inference tensor has none
    PyErr_Clear();
    return seen;
  }
  seen.version = PyLong_AsLongLong(version);
  Py_DECREF(version);
  return seen;
}

bool FrozenGraph::unchanged(PyObject* const* args) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (const Seen now = look(args[inputs_[i]]); now.version < 0 || !(now == seen_[i])) return false;
  return true;
}

void FrozenGraph::prepare(nb::list tensors) {
  std::vector<Seen> seen;  // as they are before the compile reads them
  for (nb::handle t : tensors) seen.push_back(look(t.ptr()));
  nb::object made = compile_(tensors);
  graph_ = made[0];
  if (nb::cast<bool>(made[1]))
    seen_ = std::move(seen);
  else
    inputs_.clear();
}

nb::object FrozenGraph::call(PyObject** args, std::size_t count, bool lets_go) {
  for (std::size_t i : inputs_)
    if (i >= count) fail("the graph takes more than {} inputs", count);
  if (!graph_.is_valid() || !unchanged(args)) {
    nb::list tensors;
    for (std::size_t i : inputs_) tensors.append(nb::handle(args[i]));
    prepare(std::move(tensors));
  }
  const nb::object graph = graph_;  // another thread may put another in its place
  return nb::inst_ptr<CompiledGraph>(graph)->call(args, count, lets_go);
}

}  // namespace coil::python
