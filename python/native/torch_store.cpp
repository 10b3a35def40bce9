#include "torch_store.h"

#include "runtime/groups/stores.h"
#include "support/error.h"

namespace coil::python {
namespace {

namespace nb = nanobind;
using runtime::groups::Milliseconds;

template <class Ask>
auto in_python(const Ask& ask) {
  if (!Py_IsInitialized()) fail("Python, which holds the process group's store, has ended");
  nb::gil_scoped_acquire gil;
  try {
    return ask();
  } catch (nb::python_error& e) {
    fail("the process group's store: {}", e.what());
  }
}

class TorchStore final : public runtime::groups::Store {
 public:
  explicit TorchStore(nb::object store) : store_(std::move(store)) {}
  ~TorchStore() override {
    if (!Py_IsInitialized()) {
      store_.release();
      return;
    }
    nb::gil_scoped_acquire gil;
    store_.reset();
  }

  void set(const std::string& key, const std::string& value) override {
    in_python([&] { store_.attr("set")(key.c_str(), nb::bytes(value.data(), value.size())); });
  }

  bool has(const std::string& key) override {
    return in_python([&] {
      nb::list keys;
      keys.append(key.c_str());
      return nb::cast<bool>(store_.attr("check")(keys));
    });
  }

  std::string get(const std::string& key, Milliseconds timeout) override {
    runtime::groups::await_key(*this, key, timeout, "the process group's store");
    return in_python([&] {
      const auto value = nb::cast<nb::bytes>(store_.attr("get")(key.c_str()));
      return std::string(value.c_str(), value.size());
    });
  }

 private:
  nb::object store_;
};

}  // namespace

std::shared_ptr<runtime::groups::Store> torch_store(nb::object store) {
  return std::make_shared<TorchStore>(std::move(store));
}

}  // namespace coil::python
