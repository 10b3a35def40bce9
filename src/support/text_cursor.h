// Text read from the left, one thing after the other: what the parsers of graphs, schemas and programs have in common.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "support/error.h"

namespace coil {

/// A place in a text. `blanks` are characters that may stand before anything.
class TextCursor {
 public:
  TextCursor(std::string_view text, std::string_view blanks) : text_(text), blanks_(blanks) {}

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(blanks_, at_), text_.size()); }
  bool done() {
    skip_blanks();
    return at_ == text_.size();
  }
  /// The next character; 0 at the end.
  char peek() { return done() ? '\0' : text_[at_]; }
  bool accept(char c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) expected(fmt::format("`{}`", c));
  }
  /// The word that begins here, of letters, digits, underscores and what is in `also`, without moving; empty where none
  /// does.
  std::string_view look(std::string_view also = "") {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() && (is_name(text_[end]) || also.find(text_[end]) != also.npos)) ++end;
    return text_.substr(at_, end - at_);
  }

  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

 protected:
  ~TextCursor() = default;
  /// Throws Error that names the place and what should stand there.
  [[noreturn]] virtual void expected(std::string_view wanted) const = 0;

  std::string_view text_;
  std::size_t at_ = 0;

 private:
  std::string_view blanks_;
};

}  // namespace coil
