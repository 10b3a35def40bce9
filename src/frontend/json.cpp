#include "frontend/json.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil::frontend {

namespace {

constexpr std::size_t kMaxDepth = 256;

}  // namespace

/// Builds the tree from the parser's events, without recursion.
struct JsonDocument::Builder : nlohmann::json::json_sax_t {
  explicit Builder(JsonDocument& d) : document(d) {}

  bool null() override { return scalar(Json::Kind::Null) != nullptr; }
  bool boolean(bool value) override {
    scalar(Json::Kind::Bool)->bool_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    scalar(Json::Kind::Int)->int_ = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return number_float(static_cast<double>(value), {});
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    scalar(Json::Kind::Float)->float_ = value;
    return true;
  }
  bool string(string_t& value) override {
    scalar(Json::Kind::String)->string_ = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::Kind::Object); }
  bool start_array(std::size_t) override { return open(Json::Kind::List); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    // Objects are small but for a few; those are checked by a set.
    constexpr std::size_t kSmall = 16;
    const auto& members = open_.back()->members_;
    bool repeated = false;
    if (members.size() < kSmall) {
      repeated = std::any_of(members.begin(), members.end(), [&](const Json::Member& m) { return m.first == name; });
    } else {
      auto& names = names_[open_.back()];
      if (names.empty())
        for (const Json::Member& m : members) names.insert(m.first);
      repeated = !names.insert(name).second;
    }
    if (repeated) open_.back()->fail(fmt::format("'{}' is there twice", name));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("{} is no valid JSON (at byte {})", document.document_.string_, position);
  }

 private:
  Json* add(Json::Kind kind) {
    Json& value = document.values_.emplace_back();
    value.kind_ = kind;
    if (open_.empty()) {
      value.parent_ = &document.document_;
      document.root_ = &value;
    } else {
      Json& parent = *open_.back();
      value.parent_ = &parent;
      if (parent.kind_ == Json::Kind::List)
        parent.items_.push_back(&value);
      else
        parent.members_.emplace_back(std::move(key_), &value);
    }
    return &value;
  }
  Json* scalar(Json::Kind kind) { return add(kind); }
  bool open(Json::Kind kind) {
    Json* value = add(kind);
    open_.push_back(value);
    if (open_.size() > kMaxDepth) fail("{} is nested deeper than {}", document.document_.string_, kMaxDepth);
    return true;
  }
  bool close() {
    names_.erase(open_.back());
    open_.pop_back();
    return true;
  }

  JsonDocument& document;
  std::vector<Json*> open_;
  std::string key_;
  std::unordered_map<const Json*, std::unordered_set<std::string>> names_;
};

JsonDocument::JsonDocument(std::string_view text, std::string name) {
  document_.string_ = std::move(name);
  Builder builder(*this);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!root_) coil::fail("{} is no valid JSON", document_.string_);
}

std::string Json::path() const {
  if (!parent_) return string_;  // the document's name
  std::string step;
  if (parent_->kind_ == Kind::List) {
    const auto it = std::find(parent_->items_.begin(), parent_->items_.end(), this);
    step = fmt::format("[{}]", it - parent_->items_.begin());
  } else {
    for (const auto& [key, value] : parent_->members_)
      if (value == this) step = (parent_->parent_ && parent_->parent_->parent_ ? "." : "") + key;
  }
  if (!parent_->parent_) return parent_->string_;
  const bool top = !parent_->parent_->parent_;
  return parent_->path() + (top ? ": " : "") + step;
}

void Json::fail(std::string_view problem) const {
  std::string message = fmt::format("{}: {}", path(), problem);
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';  // an error is one line, whatever the document holds
  throw Error(message);
}

void Json::expected(std::string_view what) const {
  std::string found;
  switch (kind_) {
    case Kind::Null: found = "null"; break;
    case Kind::Bool: found = bool_ ? "true" : "false"; break;
    case Kind::Int: found = fmt::format("{}", int_); break;
    case Kind::Float: found = fmt::format("{}", float_); break;
    case Kind::String: found = fmt::format("\"{}{}", string_.substr(0, 40), string_.size() > 40 ? "…\"" : "\""); break;
    case Kind::List: found = "a list"; break;
    case Kind::Object: found = "an object"; break;
  }
  fail(fmt::format("expected {}, found {}", what, found));
}

bool Json::as_bool() const {
  if (kind_ != Kind::Bool) expected("true or false");
  return bool_;
}

std::int64_t Json::as_int() const {
  if (kind_ != Kind::Int) expected("an integer of 64 bits");
  return int_;
}

double Json::as_double() const {
  if (kind_ == Kind::Float) return float_;
  if (kind_ == Kind::Int) return static_cast<double>(int_);
  if (kind_ == Kind::String && string_ == "Infinity") return std::numeric_limits<double>::infinity();
  if (kind_ == Kind::String && string_ == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (kind_ == Kind::String && string_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
  expected("a number");
}

const std::string& Json::as_string() const {
  if (kind_ != Kind::String) expected("a string");
  return string_;
}

std::span<const Json* const> Json::items() const {
  if (kind_ != Kind::List) expected("a list");
  return items_;
}

std::span<const Json::Member> Json::members() const {
  if (kind_ != Kind::Object) expected("an object");
  return members_;
}

const Json& Json::operator[](std::string_view key) const {
  for (const auto& [name, value] : members())
    if (name == key) return *value;
  fail(fmt::format("'{}' is missing", key));
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members())
    if (name == key) return value->is_null() ? nullptr : value;
  return nullptr;
}

const Json::Member& Json::only_member() const {
  if (members().size() != 1) expected("an object of one member");
  return members_.front();
}

}  // namespace coil::frontend
