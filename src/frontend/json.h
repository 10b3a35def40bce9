// JSON documents whose every value knows its place, so that what is wrong in one can be said:
// `graph_module.graph.nodes[3].target: expected a string, found 7`.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coil::frontend {

class JsonDocument;

/// One value of a document, valid as long as the document. Accessors throw Error naming the place.
class Json {
 public:
  enum class Kind : std::uint8_t { Null, Bool, Int, Float, String, List, Object };
  using Member = std::pair<std::string, const Json*>;

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  bool is_string() const { return kind_ == Kind::String; }
  bool is_list() const { return kind_ == Kind::List; }
  bool is_object() const { return kind_ == Kind::Object; }

  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;  ///< a float, an integer, or the strings `Infinity`, `-Infinity`, `NaN` that torch writes
  const std::string& as_string() const;
  std::span<const Json* const> items() const;  ///< of a list
  std::span<const Member> members() const;     ///< of an object, in the order written

  /// A member that must be there.
  const Json& operator[](std::string_view key) const;
  /// A member, or null where it is missing or is JSON's null.
  const Json* find(std::string_view key) const;
  /// The member of an object that has exactly one: how the export schema writes a union.
  const Member& only_member() const;

  std::string path() const;
  [[noreturn]] void fail(std::string_view problem) const;

 private:
  friend class JsonDocument;
  [[noreturn]] void expected(std::string_view what) const;
  const Json* parent_ = nullptr;
  Kind kind_ = Kind::Null;
  union {
    bool bool_;
    std::int64_t int_ = 0;
    double float_;
  };
  std::string string_;
  std::vector<const Json*> items_;
  std::vector<Member> members_;
};

class JsonDocument {
 public:
  /// `name` is the file's, for errors. Throws Error on anything but one JSON value, on a name given twice in one
  /// object, and on nesting deeper than 256.
  JsonDocument(std::string_view text, std::string name);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  const Json& root() const { return *root_; }
  const Json* operator->() const { return root_; }

 private:
  friend class Json;
  struct Builder;
  std::deque<Json> values_;
  Json document_;  ///< the parent of the root; its string is the name
  const Json* root_ = nullptr;
};

}  // namespace coil::frontend
