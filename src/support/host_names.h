// Prefixes that the names of operators carry where a program asks its host for more than to carry them out.
#pragma once
#include <string_view>

namespace coil {

/// Before the name of an operator with results whose sizes only it tells, which the host is called for twice. The first
/// call takes a list of pairs (result, dimension) before the operator's own arguments, runs it, keeps the results, and
/// gives integers: a number that they are kept under, then the sizes asked for. The second takes these integers and
/// gives the results, which are kept no longer.
inline constexpr std::string_view kSized = "sized.", kKept = "kept.";
/// Before the name of an operator that gives lists among several results: what they hold counts as results of its own,
/// at the list's place. Behind `sized.` and `kept.` where it has both.
inline constexpr std::string_view kFlat = "flat.";
/// The operator's own name.
inline std::string_view without_prefix(std::string_view target) {
  for (std::string_view prefix : {kSized, kKept, kFlat})
    if (target.starts_with(prefix)) target.remove_prefix(prefix.size());
  return target;
}

}  // namespace coil
