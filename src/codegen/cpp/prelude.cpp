#include "codegen/cpp/prelude.h"

#include <fmt/format.h>

#include <iterator>
#include <map>

#include "codegen/cpp/prelude_made.h"
#include "support/error.h"

namespace coil::codegen {

namespace {

/// The names that begin with `c_` or `COIL_` in a text.
std::set<std::string> names_in(std::string_view text) {
  std::set<std::string> out;
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    std::string_view word = text.substr(i, end - i);
    if (word.starts_with("c_") || word.starts_with("COIL_")) out.emplace(word);
    i = end;
  }
  return out;
}

struct Table {
  std::string types = device::whole("cpp/types.h");
  std::vector<device::Piece> pieces;
  std::map<std::string, std::size_t, std::less<>> index;
  std::vector<std::vector<std::size_t>> needs;

  Table() {
    add(device::pieces("cpp/masks.h"));
    add(cast_pieces());
    for (const char* file : {"cpp/convert.h", "cpp/memory.h"}) add(device::pieces(file));
    add(storage_pieces());
    for (const char* file : {"cpp/arithmetic.h", "cpp/integer.h"}) add(device::pieces(file));
    add({transpose_piece()});
    for (const char* file : {"cpp/lanes.h", "cpp/math.h", "cpp/more_math.h", "cpp/products.h", "shared/philox.h",
                             "cpp/random.h", "cpp/special.h", "shared/special.h"})
      add(device::pieces(file));
    for (std::size_t i = 0; i < pieces.size(); ++i)
      for (const std::string& name : pieces[i].names)
        COIL_CHECK(index.emplace(name, i).second, "two pieces of the prelude define {}", name);
    find_needs();
  }

 private:
  void add(std::vector<device::Piece> more) {
    pieces.insert(pieces.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  void find_needs() {
    needs.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const std::string& name : names_in(pieces[i].text)) {
        auto it = index.find(name);
        if (it == index.end() || it->second == i) continue;
        COIL_CHECK(it->second < i, "{} of the prelude comes before {}, which it needs", pieces[i].names[0], name);
        needs[i].push_back(it->second);
      }
    }
  }
};

/// L vectors as rows of a matrix, turned into its columns.
std::string transpose_text(int lanes) {
  std::string out;
  for (int s = lanes / 2; s > 0; s /= 2) {
    std::string low, high;
    for (int l = 0; l < lanes; ++l) {
      low += fmt::format(", {}", l & s ? lanes + l - s : l);
      high += fmt::format(", {}", l & s ? lanes + l : l + s);
    }
    for (int i = 0; i < lanes; ++i)
      if (!(i & s))
        out += fmt::format(
            "  x = __builtin_shufflevector(r[{0}], r[{1}]{2}); r[{1}] = __builtin_shufflevector(r[{0}], r[{1}]{3}); "
            "r[{0}] = x;\n",
            i, i + s, low, high);
  }
  return out;
}

const Table& table() {
  static const Table table;
  return table;
}

}  // namespace

device::Piece transpose_piece() {
  // L vectors as rows of a matrix, turned into its columns: blocks off the diagonal change places, halves first.
  std::string text = "template <class V> COIL_FN void c_transpose(V* r) {\n  V x;\n";
  for (int lanes : {16, 8, 4}) text += fmt::format("#if COIL_L == {}\n{}#endif\n", lanes, transpose_text(lanes));
  return {{"c_transpose"}, text + "}\n"};
}

std::string prelude(int lanes, const std::set<std::string>& used) {
  COIL_CHECK(lanes == 16 || lanes == 8 || lanes == 4, "vectors of {} lanes", lanes);
  const Table& all = table();
  std::vector<char> wanted(all.pieces.size(), 0);
  for (const std::string& name : used) {
    auto it = all.index.find(name);
    COIL_CHECK(it != all.index.end(), "the prelude has no {}", name);
    wanted[it->second] = 1;
  }
  for (std::size_t i = all.pieces.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (std::size_t need : all.needs[i]) wanted[need] = 1;
  }
  std::string out = fmt::format("#define COIL_L {}\n{}", lanes, all.types);
  for (std::size_t i = 0; i < all.pieces.size(); ++i) {
    if (wanted[i]) out += all.pieces[i].text;
  }
  return out;
}

std::set<std::string> prelude_names(std::string_view kernel_text) {
  std::set<std::string> out;
  for (const std::string& name : names_in(kernel_text)) {
    if (has_prelude_function(name)) out.insert(name);
  }
  return out;
}

std::set<std::string> prelude_names() {
  std::set<std::string> out;
  for (const auto& [name, piece] : table().index) out.insert(name);
  return out;
}

bool has_prelude_function(std::string_view name) { return table().index.find(name) != table().index.end(); }

}  // namespace coil::codegen
