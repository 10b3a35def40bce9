// The pieces of a text, of which a program takes those that it uses.
//
// A file stays a file of its own language: what is said here of its pieces stands in comments, each a line of its own
// (`#` in Python).
//
//   // @piece NAME …        A piece begins, and ends where the next begins. The names are what others find it by: all
//                           that it defines and others use. What stands before the first piece is for readers and
//                           tools.
//   // @for $a $b: 1 2, 3 4 What follows up to `// @end` is repeated, with $a and $b replaced. Loops nest, and may hold
//                           pieces.
//
// A file may be a template with further placeholders ($d), which are legal identifiers; fill() replaces them.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coil::device {

struct Piece {
  std::vector<std::string> names;
  std::string text;  ///< without its marker and without blank lines around it
};

/// The pieces of a file of src/device, in order.
std::vector<Piece> pieces(std::string_view file);
/// The texts of all pieces of a file, one behind the other.
std::string whole(std::string_view file);
/// The text of the piece that has the name; an invariant error where there is none.
std::string piece(std::string_view file, std::string_view name);

/// Whether the text calls the function: its whole name, then a parenthesis.
bool calls(std::string_view text, std::string_view function);
/// Marks those pieces that marked ones call by their first name; a piece calls only those before it.
void mark_called(const std::vector<Piece>&, std::vector<char>& marks);

/// The texts of those pieces that `text` calls by their first name, and of those that they call, in order.
std::string called(const std::vector<Piece>&, std::string_view text);

/// Placeholders, `$` included, and what stands for them.
using Values = std::map<std::string, std::string, std::less<>>;

/// The text with placeholders replaced; the longest that fits is meant, and those that have no value stay. Lines from
/// `#if $x` or `#if !$x` to the `#endif` (with `#else` or without) are decided where $x has a value: 0 is no.
std::string fill(std::string_view text, const Values& values);

}  // namespace coil::device
