// The pieces that the prelude is put together from: tables of named text, one table a file.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace coil::codegen {

/// A function (with all its overloads) or macro of the prelude. What it needs is found by the names in its text.
struct PreludePiece {
  std::string name;
  std::string text;
  std::vector<std::string> also = {};  ///< other names that the text defines
};

void add_convert_pieces(std::vector<PreludePiece>&);
void add_memory_pieces(std::vector<PreludePiece>&);
void add_arithmetic_pieces(std::vector<PreludePiece>&);
void add_integer_pieces(std::vector<PreludePiece>&);
void add_math_pieces(std::vector<PreludePiece>&);
void add_more_math_pieces(std::vector<PreludePiece>&);
void add_special_pieces(std::vector<PreludePiece>&);
void add_lane_pieces(std::vector<PreludePiece>&);
void add_random_pieces(std::vector<PreludePiece>&);

/// `text` once for each value, with `$name` replaced by it: the one way in which the tables loop.
std::string for_each(std::string_view text, std::string_view name, std::initializer_list<std::string_view> values);
std::string replace_all(std::string text, std::string_view from, std::string_view to);

}  // namespace coil::codegen
