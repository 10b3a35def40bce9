// One direction of one layer of a recurrent network, over a whole sequence: `recurrent` (LSTM, GRU, plain tanh and relu
// cells).
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

/// gates[T, B, G*H], hidden[B, P], cell[B, H] (lstm), weight[G*H, P], bias[G*H] (`has_bias`), projection[P, H]
/// (`has_projection`) -> sequence[T, B, P], hidden[B, P], cell[B, H] (lstm). `gates` are the input's share, its bias
/// included; order of gates as in torch.nn (lstm: i f g o; gru: r z n). Attributes: `mode` (`lstm`, `gru`, `tanh`,
/// `relu`), `reverse`, `has_bias`, `has_projection`.
std::unique_ptr<LibraryOp> make_recurrent(const Attributes&);

}  // namespace coil::runtime
