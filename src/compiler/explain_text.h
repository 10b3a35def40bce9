// Style and script of the page that `coil explain --html` writes.
#pragma once
#include <string_view>

namespace coil {

std::string_view explain_style();
/// The search: what does not hold the words goes, sections that are folded open.
std::string_view explain_script();

}  // namespace coil
