#include "device/pieces.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>

#include "device/text.h"
#include "support/error.h"

namespace coil::device {
namespace {

/// Takes the next line, its end included, off the text.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end);
  return line;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\n");
  return from == std::string_view::npos ? "" : text.substr(from, text.find_last_not_of(" \t\n") + 1 - from);
}

/// What a line says behind `// @NAME` or `# @NAME`, where it is such a line.
std::optional<std::string_view> directive(std::string_view line, std::string_view name) {
  if (line.find('@') == std::string_view::npos) return std::nullopt;
  const std::string_view words = trimmed(line);
  for (std::string_view comment : {"// @", "# @"})
    if (words.starts_with(comment) && words.substr(comment.size()).starts_with(name))
      return trimmed(words.substr(comment.size() + name.size()));
  return std::nullopt;
}

/// The parts of a text between separators, trimmed; blank ones are left out.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (const std::string_view part = trimmed(text.substr(0, end)); !part.empty()) out.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// The text up to the `@end` that belongs to a loop whose first line has been taken; takes that line as well.
std::string_view take_loop(std::string_view& text) {
  const char* const begin = text.data();
  for (int depth = 1; !text.empty();) {
    const char* const line_begin = text.data();
    const std::string_view line = take_line(text);
    depth += directive(line, "for") ? 1 : directive(line, "end") ? -1 : 0;
    if (depth == 0) return {begin, static_cast<std::size_t>(line_begin - begin)};
  }
  COIL_CHECK(false, "a loop has no end: {}", std::string_view(begin, 80));
  return {};
}

/// The text with its loops carried out.
std::string unrolled(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto head = directive(line, "for");
    if (!head) {
      out += line;
      continue;
    }
    const std::string_view body = take_loop(text);
    const std::size_t colon = head->find(':');
    COIL_CHECK(colon != std::string_view::npos, "a loop says nothing to repeat for: {}", *head);
    const auto names = split(head->substr(0, colon), ' ');
    for (std::string_view row : split(head->substr(colon + 1), ',')) {
      const auto fields = split(row, ' ');
      COIL_CHECK(fields.size() == names.size(), "a loop over {} names has '{}'", names.size(), row);
      Values values;
      for (std::size_t i = 0; i < names.size(); ++i) values.emplace(names[i], fields[i]);
      out += unrolled(fill(body, values));
    }
  }
  return out;
}

/// The text with those conditional lines decided that ask for a placeholder that has a value.
std::string decided(std::string_view text, const Values& values) {
  struct Condition {
    bool ours, holds;
  };
  std::vector<Condition> open;
  std::string out;
  while (!text.empty()) {
    const std::string_view line = take_line(text), word = trimmed(line);
    bool ours = false;
    if (word.starts_with("#if")) {
      std::string_view name = word.starts_with("#if ") ? trimmed(word.substr(4)) : "";
      const bool negated = name.starts_with("!");
      if (negated) name.remove_prefix(1);
      const auto found = values.find(name);
      ours = found != values.end();
      open.push_back({ours, !ours || (found->second != "0") != negated});
    } else if (!open.empty() && (word == "#else" || word == "#endif")) {
      ours = open.back().ours;
      if (word == "#endif")
        open.pop_back();
      else if (ours)
        open.back().holds = !open.back().holds;
    }
    if (!ours && std::ranges::all_of(open, &Condition::holds)) out += line;
  }
  return out;
}

}  // namespace

std::string fill(std::string_view text, const Values& values) {
  std::string chosen;
  if (text.find("#if $") != std::string_view::npos || text.find("#if !$") != std::string_view::npos)
    text = chosen = decided(text, values);
  std::vector<Values::const_pointer> longest_first;
  for (const auto& value : values) longest_first.push_back(&value);
  std::ranges::stable_sort(longest_first, std::greater{}, [](const auto* value) { return value->first.size(); });
  std::string out;
  for (std::size_t at; (at = text.find('$')) != std::string_view::npos;) {
    out += text.substr(0, at);
    text.remove_prefix(at);
    const auto found =
        std::ranges::find_if(longest_first, [&](const auto* value) { return text.starts_with(value->first); });
    out += found == longest_first.end() ? "$" : (*found)->second;
    text.remove_prefix(found == longest_first.end() ? 1 : (*found)->first.size());
  }
  return out += text;
}

std::vector<Piece> pieces(std::string_view file) {
  const std::string text = unrolled(file_text(file));
  std::vector<Piece> out;
  std::vector<std::size_t> begins, ends;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    const auto names = directive(line, "piece");
    if (!names) continue;
    ends.push_back(static_cast<std::size_t>(line.data() - text.data()));
    begins.push_back(static_cast<std::size_t>(rest.data() - text.data()));
    out.emplace_back();
    for (std::string_view name : split(*names, ' ')) out.back().names.emplace_back(name);
  }
  COIL_CHECK(!out.empty(), "{} has no pieces", file);
  ends.push_back(text.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].text = std::string(trimmed(std::string_view(text).substr(begins[i], ends[i + 1] - begins[i]))) + "\n";
  return out;
}

bool calls(std::string_view text, std::string_view function) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = 0; (at = text.find(function, at)) != std::string_view::npos; at += function.size()) {
    const std::size_t end = at + function.size();
    if (end < text.size() && text[end] == '(' && (at == 0 || !is_word(text[at - 1]))) return true;
  }
  return false;
}

void mark_called(const std::vector<Piece>& pieces, std::vector<char>& marks) {
  for (std::size_t user = pieces.size(); user-- > 0;) {
    if (!marks[user]) continue;
    for (std::size_t i = 0; i < user; ++i) marks[i] |= calls(pieces[user].text, pieces[i].names[0]);
  }
}

std::string called(const std::vector<Piece>& pieces, std::string_view text) {
  std::vector<char> wanted(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) wanted[i] = calls(text, pieces[i].names[0]);
  mark_called(pieces, wanted);
  std::string out;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (wanted[i]) out += pieces[i].text;
  return out;
}

std::string whole(std::string_view file) {
  std::string out;
  for (const Piece& p : pieces(file)) out += p.text;
  return out;
}

std::string piece(std::string_view file, std::string_view name) {
  for (Piece& p : pieces(file))
    if (std::ranges::find(p.names, name) != p.names.end()) return std::move(p.text);
  COIL_CHECK(false, "{} has no piece {}", file, name);
  return {};
}

}  // namespace coil::device
