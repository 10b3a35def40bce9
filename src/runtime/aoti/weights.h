// The weights of a loaded package in torch's sense: two sets, of which one is active, that callers look at, write to
// and swap.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/aoti/torch.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/torch_interface.h"

namespace coil::runtime::aoti {

/// A weight by its name, and its new value, borrowed.
using NewWeight = std::pair<std::string, AtenTensorHandle>;

/// How new values are taken.
struct UpdateOptions {
  bool inactive = false;   ///< by the set that is not active, which is a copy of the active one at first
  bool full = false;       ///< all parameters must be among them
  bool borrowed = false;   ///< where they lie, without a copy; the tensors are kept
  bool from_host = false;  ///< they may lie on the host where the program does not
};

/// Nothing here may be called while a program runs on the set that it changes.
class Weights {
 public:
  Weights(std::shared_ptr<const Model>, const TorchInterface&);

  /// The program on the active set. Another object after changes that move weights.
  const std::shared_ptr<const Model>& model() const { return sets_[active_].model; }
  /// Runs write to some of them.
  bool has_states() const { return has_states_; }

  /// Throws Error, and has then changed nothing, for a name that is not there, another dtype or size, a device that the
  /// program is not on, and weights that are fixed.
  void update(std::span<const NewWeight>, const UpdateOptions&);
  /// Throws Error where there is no inactive set.
  void swap();
  void free_inactive();
  /// By name, the weights that the program reads; handles live until the next call or change. Empty where there is no
  /// inactive set.
  std::vector<NewWeight> look(bool inactive);

  /// Bytes of all weights, one behind another in the order of the interface, each from a multiple of 64 on.
  std::uint64_t blob_bytes() const;
  /// New values for all weights in that form.
  void update_from_blob(const std::uint8_t*);

 private:
  struct Set {
    std::shared_ptr<const Model> model;  ///< none: the set is not there
    std::vector<TensorHandle> seen;      ///< that callers look at
    std::vector<char> borrowed;          ///< for each constant, whether it lies in memory of the caller's
  };

  /// Constants of the set that `chosen` names lie in memory of torch's then, that is this set's own.
  template <class F>
  void own(Set&, F&& chosen);
  std::size_t constant_of(const TorchWeight&) const;
  const TorchWeight& find(const std::string& name) const;
  void check_all_there(std::span<const NewWeight>) const;
  Tensor checked(const TorchWeight&, AtenTensorHandle, const UpdateOptions&) const;
  Tensor seen_as(const TorchWeight&, const Tensor& constant) const;
  void copy_in(Set&, const std::vector<std::pair<const TorchWeight*, Tensor>>&);
  void lay_in(Set&, const std::vector<std::pair<const TorchWeight*, Tensor>>&);
  Set& inactive();

  const TorchInterface& interface_;
  std::map<std::string, std::size_t> by_name_;    ///< places in the interface, by names as torch's callers know them
  std::map<std::string, std::size_t> constants_;  ///< places in the plan
  Set sets_[2];
  int active_ = 0;
  bool has_states_ = false;
};

/// A name as Inductor writes it: what is no letter or digit is an underscore.
std::string flat_name(const std::string&);

}  // namespace coil::runtime::aoti
