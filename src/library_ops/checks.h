// Operations that look at values while the program runs: their attributes.
#pragma once
#include "library_ops/attribute.h"

namespace coil::library_ops::checks {

inline constexpr std::string_view kAllBounded = "all_bounded", kFinite = "assert_finite", kAligned = "assert_aligned";
inline constexpr Number kLimit{
    .name = "limit", .sentence = "The greatest magnitude that counts as bounded.", .presence = Presence::Required};
inline constexpr Text kWhat{
    .name = "name", .sentence = "What the message calls the tensor.", .presence = Presence::Optional};
inline constexpr Flag kNoNan{.name = "nan", .sentence = "Fails where it holds NaN.", .fallback = true};
inline constexpr Flag kNoInfinity{.name = "inf", .sentence = "Fails where it holds an infinity.", .fallback = true};
inline constexpr Integer kBytes{.name = "bytes", .sentence = "The address must be a multiple of it.", .fallback = 16};

}  // namespace coil::library_ops::checks
