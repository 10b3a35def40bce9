/* An operator of one's own in C: `shop::soft_step(Tensor x, float width=1.0) -> Tensor`, x/(|x| + width) over float32.
 *
 * As a library that `coil` loads:
 *   gcc -std=c11 -fPIC -shared -Iinclude examples/c/custom_operator.c -o custom_operator.so
 *   coil compile model.pt2 -o model.coil --load ./custom_operator.so
 *   coil run model.coil --load ./custom_operator.so
 * A program of its own calls register_operators() before coil_model_load. */
#include <coil/runtime.h>
#include <math.h>

/* Both may have any strides: walks every index. */
static int soft_step(const coil_value* arguments, size_t argument_count, const coil_tensor* outputs,
                     size_t output_count, void* user) {
  (void)user;
  if (argument_count != 2 || output_count != 1 || arguments[0].kind != COIL_VALUE_TENSOR ||
      arguments[0].tensor->dtype != COIL_F32) {
    coil_set_error("soft_step takes a float32 tensor");
    return 1;
  }
  const coil_tensor* x = arguments[0].tensor;
  const coil_tensor* y = &outputs[0];
  const float width = (float)(arguments[1].kind == COIL_VALUE_INT ? (double)arguments[1].integer : arguments[1].real);
  int64_t index[COIL_MAX_RANK] = {0}, count = 1;
  if (!y->data) return 0; /* nobody reads it */
  for (int d = 0; d < x->rank; ++d) count *= x->sizes[d];
  for (int64_t n = 0; n < count; ++n) {
    int64_t from = 0, to = 0;
    for (int d = 0; d < x->rank; ++d) from += index[d] * x->strides[d], to += index[d] * y->strides[d];
    const float v = ((const float*)x->data)[from];
    ((float*)y->data)[to] = v / (fabsf(v) + width);
    for (int d = x->rank - 1; d >= 0 && ++index[d] == x->sizes[d]; --d) index[d] = 0;
  }
  return 0;
}

int register_operators(void) {
  return coil_operator_register("shop::soft_step(Tensor x, float width=1.0) -> Tensor", soft_step, 0);
}

__attribute__((constructor)) static void when_loaded(void) { register_operators(); }
