// One line of a program's text, read from the left: words, strings and brackets, with faults that name the place.
#pragma once
#include <cctype>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "support/text_cursor.h"

namespace coil {

inline bool is_word(char c) { return TextCursor::is_name(c) || c == '.'; }

/// The first line that says something: neither blank nor a comment (`#`). It begins with what the text is.
inline std::string_view first_line(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (!line.empty() && line[0] != '#') return line;
  }
  return {};
}

/// One line, read from the left.
class LineCursor final : public TextCursor {
 public:
  LineCursor(std::string_view text, std::size_t number) : TextCursor(text, " "), number_(number) {}

  [[noreturn]] void fault(const std::string& what) const { fail("line {}, column {}: {}", number_, at_ + 1, what); }

  void expect_end() {
    if (!done()) fault("the line should end here");
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    // A word ends where it ends.
    if (is_word(token.back()) && at_ + token.size() < text_.size() && is_word(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fault(fmt::format("'{}' should stand here", token));
  }
  std::string bare() {
    const std::string_view word = look(".");
    if (word.empty()) expected("a word");
    at_ += word.size();
    return std::string(word);
  }
  /// Letters, digits and underscores: names that reach code as they are.
  std::string identifier() {
    const std::size_t begin = at_;
    std::string name = bare();
    if (name.find('.') != name.npos || std::isdigit(static_cast<unsigned char>(name[0]))) {
      at_ = begin;
      fault(fmt::format("'{}' is no identifier", name));
    }
    return name;
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      const char c = ++at_ < text_.size() ? text_[at_++] : '\0';
      if (c == 'n')
        out += '\n';
      else if (c == 't')
        out += '\t';
      else if (c == '"' || c == '\\')
        out += c;
      else if (c == 'x' && at_ + 2 <= text_.size() && std::isxdigit(static_cast<unsigned char>(text_[at_])) &&
               std::isxdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
        out += static_cast<char>(std::stoi(std::string(text_.substr(at_, 2)), nullptr, 16));
        at_ += 2;
      } else
        fault("an unknown escape");
    }
    if (at_ == text_.size()) fault("the string has no end");
    ++at_;
    return out;
  }
  std::string name() { return peek() == '"' ? quoted() : bare(); }

  /// Text up to one of the stops (or the end) that is in no bracket.
  std::string_view until(std::initializer_list<std::string_view> stops) {
    skip_blanks();
    const std::size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0)
        for (std::string_view stop : stops)
          if (text_.substr(at_, stop.size()) == stop) return text_.substr(begin, at_ - begin);
      if (c == '(' || c == '[') ++depth;
      if ((c == ')' || c == ']') && --depth < 0) break;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::int64_t integer() {
    const std::string_view text = until({" ", ",", ";", ")", "]"});
    std::int64_t v = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (status != std::errc() || end != text.data() + text.size()) fault(fmt::format("'{}' is no integer", text));
    return v;
  }

  /// Reads items between commas by `item`, up to a character that is left.
  template <class F>
  void items(char close, F item) {
    while (peek() != close) {
      item();
      if (!accept(",") && peek() != close) fault(fmt::format("',' or '{}' should stand here", close));
    }
  }

  std::size_t number() const { return number_; }

 private:
  [[noreturn]] void expected(std::string_view wanted) const override {
    fault(fmt::format("{} should stand here", wanted));
  }

  std::size_t number_;
};

}  // namespace coil
