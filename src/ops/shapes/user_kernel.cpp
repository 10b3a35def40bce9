// A call of a kernel that the user wrote: it gives what it writes to, in the layout that it was given.
#include "ops/user_kernel.h"

#include "ops/registry.h"
#include "ops/shapes/families.h"
#include "support/error.h"

namespace coil::ops::shapes {
namespace {

Value written_tensors(const Call& call) {
  const Values &tensors = call.args[1].as_list(), &written = call.args[4].as_list();
  Values out;
  for (const Value& place : written) {
    const auto k = place.as_int().constant();
    if (!k || *k < 0 || *k >= static_cast<std::int64_t>(tensors.size()))
      fail("writes to tensor {} of {}", to_string(place), tensors.size());
    TensorMeta meta = tensors[static_cast<std::size_t>(*k)].as_tensor();
    meta.offset = 0;
    out.emplace_back(std::move(meta));
  }
  return out;
}

}  // namespace

void register_user_kernel() {
  define(
      "coil::user_kernel(str kernel, Tensor[] tensors, SymInt[] numbers, SymInt[] grid, int[] written, "
      "SymInt[] memories=[]) -> Tensor[]",
      written_tensors);
}

}  // namespace coil::ops::shapes
