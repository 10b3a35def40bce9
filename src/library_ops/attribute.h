// Attributes of library calls: their values, the typed keys that name them, and how they are read.
//
// A key says once what an attribute is called, of which type it is, what holds where a call does not give it, and what
// it means. The table of operations, the typed views over calls and the code that carries calls out all use the key.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/extension_api.h"

namespace coil::library_ops {

/// A flag is an integer: 0, or any other for yes.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

enum class AttributeType : std::uint8_t { Flag, Integer, Number, Text, Integers, Numbers, Texts };

/// `flag`, `integer`, `list of integers`, …
std::string_view to_string(AttributeType);
/// Whether the value is one of this type.
bool is_of(const Attribute&, AttributeType);
/// As a person reads it: `1`, `0.5`, `"lstm"`, `[1, 2]`.
std::string to_string(const Attribute&);

/// What holds where a call does not give an attribute.
enum class Presence : std::uint8_t {
  Defaulted,  ///< its default
  Optional,   ///< what its sentence says
  Required,   ///< nothing: every call gives it
};

/// An attribute with one value.
template <class T>
struct Key {
  std::string_view name;
  std::string_view sentence;
  T fallback{};
  Presence presence = Presence::Defaulted;
};
using Flag = Key<bool>;
using Integer = Key<std::int64_t>;
using Number = Key<double>;
using Text = Key<std::string_view>;

/// An attribute with a list of values. `each`: what every one of them is where the call does not give the list, and the
/// number of them follows from the operands.
template <class T>
struct ListKey {
  std::string_view name;
  std::string_view sentence;
  std::optional<std::int64_t> each{};
  Presence presence = Presence::Optional;
};
using Integers = ListKey<std::int64_t>;
using Numbers = ListKey<double>;
using Texts = ListKey<std::string>;

// The value that a call gives, else the default (an empty list). Throws Error naming the attribute when the call gives
// a value of another type.
COIL_EXTENSION_API bool read(const Attributes&, const Flag&);
COIL_EXTENSION_API std::int64_t read(const Attributes&, const Integer&);
COIL_EXTENSION_API double read(const Attributes&, const Number&);
COIL_EXTENSION_API const std::string& read(const Attributes&, const Text&);
COIL_EXTENSION_API const std::vector<std::int64_t>& read(const Attributes&, const Integers&);
COIL_EXTENSION_API const std::vector<double>& read(const Attributes&, const Numbers&);
COIL_EXTENSION_API const std::vector<std::string>& read(const Attributes&, const Texts&);

/// The value that the call gives; nothing where it gives none.
std::optional<std::int64_t> find(const Attributes&, const Integer&);

/// One value for each of `spatial` dimensions; a single one stands for all of them, and where the call gives none,
/// `each` of the key does. Throws Error, naming `operation`, for another number of values.
std::vector<std::int64_t> per_dimension(const Attributes&, const Integers&, std::size_t spatial,
                                        std::string_view operation);

/// A key without its type, as the table of operations holds it.
struct AttributeInfo {
  std::string name;
  AttributeType type = AttributeType::Integer;
  Presence presence = Presence::Defaulted;
  Attribute fallback = std::int64_t{0};  ///< where `presence` is Defaulted, and of lists with `each` what each one is
  std::string sentence;

  AttributeInfo() = default;
  AttributeInfo(const Flag&);
  AttributeInfo(const Integer&);
  AttributeInfo(const Number&);
  AttributeInfo(const Text&);
  AttributeInfo(const Integers&);
  AttributeInfo(const Numbers&);
  AttributeInfo(const Texts&);
};

}  // namespace coil::library_ops
