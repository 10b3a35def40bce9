// The pieces of the prelude that are computed rather than written: those of pairs of types, of dtypes, and of numbers
// of lanes. The others are files in device/cpp.
#pragma once
#include <vector>

#include "device/pieces.h"

namespace coil::codegen {

/// `c_cast_<type>` for all register types.
std::vector<device::Piece> cast_pieces();
/// Loads and stores of all dtypes: device/cpp/storage.h, filled for each.
std::vector<device::Piece> storage_pieces();
/// `c_transpose`.
device::Piece transpose_piece();

}  // namespace coil::codegen
