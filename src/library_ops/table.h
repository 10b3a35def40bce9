// The table of library operations: Coil's own, and those that a process defines.
#pragma once
#include <string_view>
#include <vector>

#include "library_ops/descriptor.h"

namespace coil::library_ops {

/// Coil's own operations, in the order of docs/library_ops.md.
const std::vector<Descriptor>& builtin();
/// Null where there is no such operation. What is returned stays.
const Descriptor* find(std::string_view op);
/// Throws Error naming an operation that there is not.
const Descriptor& get(std::string_view op);
/// Whether there is such an operation and it has the trait.
bool has(std::string_view op, Trait);
/// Whether a device may carry out the operation for another, on copies of its operands: it asks neither for memory at
/// an address nor for the processes that work together with the other device.
bool works_on_copies(std::string_view op);

/// An operation that Coil does not bring. The first description of a name stays; Coil's own cannot be described anew.
void define(Descriptor);

// A group of operations in each file of this folder.
std::vector<Descriptor> product_ops();
std::vector<Descriptor> convolution_ops();
std::vector<Descriptor> attention_ops();
std::vector<Descriptor> sorting_ops();
std::vector<Descriptor> recurrent_ops();
std::vector<Descriptor> selection_ops();
std::vector<Descriptor> check_ops();
std::vector<Descriptor> matrix_ops();
std::vector<Descriptor> fourier_ops();
std::vector<Descriptor> collective_ops();
std::vector<Descriptor> copy_ops();

}  // namespace coil::library_ops
