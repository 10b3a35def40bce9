#include "ir/point_function.h"

#include <algorithm>

#include "ir/scalar_text.h"
#include "support/error.h"

namespace coil::ir {

std::string point_function_text(ScalarPool& pool, Scalar body, std::span<const Scalar> operands) {
  const Scalar of_places = pool.replace_loads(body, [&](Scalar load) -> Scalar {
    const auto found = std::ranges::find(operands, load);
    COIL_CHECK(found != operands.end(), "a load of the body is none of the operands");
    return pool.load(static_cast<BufferId>(found - operands.begin()), load->rounded, {});
  });
  return to_string(of_places, [&](BufferId place) { return operands[place]->rounded; });
}

Scalar read_point_function(ScalarPool& pool, std::string_view text, std::span<const DType> types) {
  LineCursor cursor(text, 1);
  const PartReader parts(pool.env(), true);
  const Scalar value = read_scalar(cursor, parts, pool, [&](BufferId place) {
    if (place >= types.size()) fail("there is no operand {}", place);
    return types[place];
  });
  cursor.expect_end();
  return value;
}

}  // namespace coil::ir
