// Values that matrix products read, in a form that suits the device's library.
#pragma once
#include "lowering/lowering.h"

namespace coil::lowering {

/// Called after each node is lowered. Where a large product reads the value and the library wants its rows in whole
/// vectors, the value is put into memory that way at once, and whoever else reads it does so from there: made by its
/// first product, it would have been stored for the others already, and be copied.
void store_for_products(Context&, const fx::Node&, const TensorBox&);

}  // namespace coil::lowering
