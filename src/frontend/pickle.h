// Reads what `torch.save` writes, without running any of it: a pickle is read as data, and only what makes plain values
// and tensors is given meaning.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/archive.h"
#include "tensor/tensor.h"

namespace coil::frontend {

/// One value. Children may be shared, and lists and dicts may even contain themselves: who walks must bound the depth.
struct PickleValue {
  enum class Kind : std::uint8_t {
    None,
    Bool,
    Int,
    Float,
    String,
    Tuple,
    List,
    Dict,
    Set,
    Global,
    Object,
    Tensor,
    Storage
  };
  Kind kind = Kind::None;
  std::int64_t integer = 0;  ///< Bool, Int
  double real = 0;           ///< Float
  std::string text;          ///< String; `module.name` of a Global; the class of an Object, whose state is opaque
  std::vector<const PickleValue*>
      items;  ///< Tuple, List, Set; Dict: keys and values in turns; Object: the constructor's arguments
  const PickleValue* state = nullptr;  ///< Object: what it was given to restore itself from
  Tensor tensor;                       ///< Tensor; Storage: one dimension
  bool is(Kind k) const { return kind == k; }
};

/// The pickle's values and their owner.
class Pickle {
 public:
  /// `archive` is the zip file that `torch.save` writes. Tensors share its memory, and storage among themselves as they
  /// did when saved. Throws Error on malformed pickles and on tensor subclasses.
  static Pickle read_torch_save(const Archive& archive);
  const PickleValue& root() const { return *root_; }

 private:
  friend class Unpickler;
  std::vector<std::unique_ptr<PickleValue>> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace coil::frontend
