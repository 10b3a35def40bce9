// Recurrent layers: the attributes of `recurrent`.
#pragma once
#include "library_ops/products.h"

namespace coil::library_ops::recurrent {

inline constexpr std::string_view kName = "recurrent", kPairName = "recurrent_pair", kLstm = "lstm",
                                  kTrainingName = "recurrent_training", kBackwardName = "recurrent_backward";
inline constexpr Text kMode{
    .name = "mode", .sentence = "`lstm`, `gru`, `tanh` or `relu`: the cell.", .presence = Presence::Required};
inline constexpr Flag kReverse{.name = "reverse", .sentence = "From the last step to the first."};
inline constexpr Flag kSecondReverse{.name = "second_reverse",
                                     .sentence = "The second layer from the last step to the first."};
inline constexpr Flag kFromEnd{.name = "from_end", .sentence = "From the last step to the first."};
inline constexpr Flag kBias{.name = kHasBias.name, .sentence = "A bias follows the weight."};
inline constexpr Flag kHasProjection{.name = "has_projection", .sentence = "The hidden state is projected."};

}  // namespace coil::library_ops::recurrent
