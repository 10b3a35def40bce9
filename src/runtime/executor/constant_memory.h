// The memory of a program's constants in pieces: constants that share memory stay together when it moves.
#pragma once
#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace coil::runtime {

/// A stretch of memory that one constant or several, overlapping ones lie in.
struct ConstantPiece {
  std::byte *begin = nullptr, *end = nullptr;
  std::vector<std::size_t> constants;  ///< indices

  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
};

/// By address; constants without elements are in none.
std::vector<ConstantPiece> constant_pieces(std::span<const Tensor>);

/// Copies a piece to `to`, `offset` bytes in (64-byte aligned), and makes its constants views of it.
void move_piece(const ConstantPiece&, const Storage& to, std::size_t offset, std::span<Tensor> constants, Queue&);

/// Copies all constants into one allocation of the queue's device, and waits.
void move_constants(std::span<Tensor> constants, Queue&);

}  // namespace coil::runtime
