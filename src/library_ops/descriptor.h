// What is known of a library operation: its operands, results, attributes, post-operations and traits.
//
// An operation is work that plans call by name and that a library (oneDNN, cuBLASLt, LAPACK), a loop of the runtime's
// or a kernel written as it is carries out. Sizes are those of the operands' views, and any strides that the views have
// are honoured, unless an operand says `dense`.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "library_ops/attribute.h"
#include "library_ops/post_op_kind.h"

namespace coil::library_ops {

/// What passes, devices and emitters ask of an operation instead of its name.
enum class Trait : std::uint8_t {
  Product,              ///< multiplies matrices: y = a b + bias over the last dimension of a
  Convolution,          ///< y = x * weight + bias
  ConvolutionGradient,  ///< the gradient of a convolution's weight
  TakesPostOps,         ///< has the attribute `post` and the operands that it names
  ChannelsLast,         ///< libraries carry it out best where dimension 1 of its operands is innermost in memory
  Assertion,            ///< reads, writes nothing, and may fail the run
  ReadsAddress,         ///< asks where its operand lies: a copy of that elsewhere would tell nothing
  Kernel,               ///< only ever a kernel of Coil's own (Backend::has_template), never a library's
  Collective,           ///< starts an exchange between processes: called in program order and exactly as often as the
                        ///< program says, used or not; its results are used behind a wait
  Wait,                 ///< waits for what a collective gave
  Exchange,             ///< exchanges values with other processes and is done when it returns: called as a collective
                        ///< is, and waited for by nobody
  Barrier,              ///< an exchange of nothing: processes wait for one another
  OneShotSum,           ///< an exchange: every rank adds up the operands of all
  PeerSum,              ///< begins an exchange: kernels that read x behind it add up the x of all ranks, by a table
  DeviceCopy,           ///< moves a tensor from one device of the program to another
};
inline constexpr std::size_t kTraits = 15;
/// The trait in words, such as `takes post-operations`.
std::string_view to_string(Trait);

class Traits {
 public:
  constexpr Traits() = default;
  constexpr Traits(std::initializer_list<Trait> list) {
    for (Trait t : list) bits_ |= bit(t);
  }
  constexpr bool has(Trait t) const { return (bits_ & bit(t)) != 0; }

 private:
  static constexpr std::uint32_t bit(Trait t) { return std::uint32_t{1} << static_cast<unsigned>(t); }
  std::uint32_t bits_ = 0;
};

/// The calls that have an operand: those whose attribute is (or is not) this value.
struct When {
  std::string attribute;
  Attribute value = std::int64_t{1};
  bool equal = true;

  When(const Flag& key, bool set = true) : attribute(key.name), value(std::int64_t{set}) {}
  When(const Text& key, std::string text) : attribute(key.name), value(std::move(text)) {}
  static When not_zero(const Integer& key) {
    When out{Flag{.name = key.name, .sentence = key.sentence}, false};
    out.equal = false;
    return out;
  }
};

/// An operand or a result.
struct Operand {
  std::string name;
  std::string sizes;          ///< as in `[.., N, K]`
  std::string sentence = "";  ///< what the name and the sizes do not say
  std::optional<When> when = std::nullopt;
  bool optional = false;      ///< a call may leave it out; then it has none of those behind it that are optional too
  bool of_post_ops = false;   ///< as many as the call's post-operations read
  bool of_pre = false;        ///< as many as the call's attribute `pre_operands` says
  bool repeated = false;      ///< a call has one or more; as many as of all others that are repeated
  bool packable = false;      ///< a constant may be rearranged once into a form that the library likes best
  bool read_by_host = false;  ///< the host reads its values, on every device: a call that has it is not recorded
};

struct Descriptor {
  std::string name;
  std::string sentence;
  std::vector<Operand> operands, results;
  std::vector<AttributeInfo> attributes;
  std::vector<PostOpKind> post_ops = {};
  Traits traits = {};
  /// Nothing is known but the name: any operands and attributes will do.
  bool open = false;

  const AttributeInfo* attribute(std::string_view attribute_name) const;
  /// The place among the operands of the one that may be packed.
  std::optional<std::size_t> packable() const;
};

}  // namespace coil::library_ops
