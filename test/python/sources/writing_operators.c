/* Operators that write to their arguments, in C: test_library.py. */
#include <coil/runtime.h>
typedef void (*step)(float*, float);
static void plus(float* a, float by) { *a += by; }
static void times(float* a, float by) { *a *= by; }
static void keep(float* a, float by) { *a = by; }
static int64_t each(const coil_tensor* t, step f, float by, const coil_tensor* from) {
  int64_t index[COIL_MAX_RANK] = {0}, count = 1;
  for (int d = 0; d < t->rank; ++d) count *= t->sizes[d];
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = 0, source = 0;
    for (int d = 0; d < t->rank; ++d) at += index[d] * t->strides[d], source += from ? index[d] * from->strides[d] : 0;
    f((float*)t->data + at, from ? ((const float*)from->data)[source] : by);
    for (int d = t->rank - 1; d >= 0 && ++index[d] == t->sizes[d]; --d) index[d] = 0;
  }
  return count;
}
static float total;
static void add_up(float* a, float by) {
  (void)by;
  total += *a;
}
static int bump(const coil_value* a, size_t n, const coil_tensor* out, size_t results, void* user) {
  (void)n, (void)out, (void)user;
  if (results != 0) {
    coil_set_error("bump_ has no results");
    return 1;
  }
  each(a[0].tensor, plus, (float)(a[1].kind == COIL_VALUE_INT ? (double)a[1].integer : a[1].real), 0);
  return 0;
}
static int drain(const coil_value* a, size_t n, const coil_tensor* out, size_t results, void* user) {
  (void)n, (void)user;
  if (results != 2) {
    coil_set_error("drain has two results");
    return 1;
  }
  if (out[0].data) each(&out[0], keep, 0, a[0].tensor);
  if (out[1].data) *(int64_t*)out[1].data = (int64_t)a[1].count;
  for (size_t i = 0; i < a[1].count; ++i) {
    total = 0;
    each(a[0].tensor, add_up, 0, 0);
    each(a[1].items[i].tensor, plus, total / 10, 0);
    each(a[0].tensor, times, 0.9f, 0);
  }
  if (a[2].kind == COIL_VALUE_TENSOR) each(a[2].tensor, plus, (float)a[1].count, 0);
  return 0;
}
__attribute__((constructor)) static void when_loaded(void) {
  coil_operator_register("shop::bump_(Tensor(a!) x, float by=1.0) -> ()", bump, 0);
  coil_operator_register("shop::drain(Tensor(a!) x, Tensor(b!)[] tanks, *, Tensor(c!)? log=None) -> (Tensor, Tensor)",
                         drain, 0);
}
