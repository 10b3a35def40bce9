/* Operators whose results have sizes that only they tell, in C, for the command, packages and C++ source:
 * test_library.py. */
#include <coil/runtime.h>
static float at(const coil_tensor* x, int64_t i) { return ((const float*)x->data)[i * x->strides[0]]; }
static int64_t chosen(const coil_tensor* x, double above, float sign, float* to) { /* how many, and those with `to` */
  int64_t n = 0;
  for (int64_t i = 0; i < x->sizes[0]; ++i)
    if (sign * at(x, i) > above) {
      if (to) to[n] = at(x, i);
      ++n;
    }
  return n;
}
static float* add(coil_results* results, int rank, int64_t n, int64_t m) {
  const int64_t sizes[2] = {n, m};
  coil_tensor* t = coil_results_add(results, COIL_F32, rank, sizes);
  return t ? (float*)t->data : 0;
}
static int positive(const coil_value* a, size_t n, coil_results* results, void* user) {
  (void)n, (void)user;
  if (a[0].tensor->sizes[0] == 666) {
    coil_set_error("it finds nothing good");
    return 1;
  }
  float* to = add(results, 1, chosen(a[0].tensor, 0, 1, 0) + (a[0].tensor->sizes[0] == 777), 0);
  if (!to) return 1;
  chosen(a[0].tensor, 0, 1, to);
  return 0;
}
static int extremes(const coil_value* a, size_t count, coil_results* results, void* user) {
  (void)count, (void)user;
  const coil_tensor* x = a[0].tensor;
  int64_t n = chosen(x, -a[1].real, -1, 0), m = chosen(x, a[2].real, 1, 0);
  float* low = add(results, 2, n, 2);
  coil_tensor* all = coil_results_add(results, COIL_I64, 0, 0);
  float* high = add(results, 2, 3, m);
  if (!low || !all || !high) return 1;
  for (int64_t i = 0, k = 0; i < x->sizes[0]; ++i)
    if (at(x, i) < a[1].real) low[k] = low[k + 1] = at(x, i), k += 2;
  *(int64_t*)all->data = x->sizes[0];
  for (int row = 0; row < 3; ++row) chosen(x, a[2].real, 1, high + row * m);
  return 0;
}
static int pieces(const coil_value* a, size_t count, coil_results* results, void* user) {
  (void)count, (void)user;
  const coil_tensor* x = a[0].tensor;
  int64_t n = chosen(x, 0, 1, 0);
  float *more = add(results, 1, n, 0), *less = add(results, 1, x->sizes[0] - n, 0);
  if (!more || !less) return 1;
  chosen(x, 0, 1, more);
  for (int64_t i = 0, k = 0; i < x->sizes[0]; ++i)
    if (!(at(x, i) > 0)) less[k++] = at(x, i);
  return 0;
}
/* Every second one is taken out of x, which keeps zeros there. */
static int drawn(const coil_value* a, size_t count, coil_results* results, void* user) {
  (void)count, (void)user;
  const coil_tensor* x = a[0].tensor;
  int64_t n = 0;
  for (int64_t i = 0; i < x->sizes[0]; ++i) n += at(x, i) > 0;
  float* to = add(results, 1, n, 0);
  if (!to) return 1;
  for (int64_t i = 0, k = 0; i < x->sizes[0]; ++i)
    if (at(x, i) > 0) to[k++] = at(x, i), ((float*)x->data)[i * x->strides[0]] = 0;
  return 0;
}
static int soft_step(const coil_value* a, size_t count, coil_results* results, void* user) {
  (void)count, (void)user;
  float* to = add(results, 1, a[0].tensor->sizes[0], 0);
  if (!to) return 1;
  for (int64_t i = 0; i < a[0].tensor->sizes[0]; ++i) {
    const float v = at(a[0].tensor, i);
    to[i] = v / ((v < 0 ? -v : v) + (float)a[1].real);
  }
  return 0;
}
__attribute__((constructor)) static void when_loaded(void) {
  coil_operator_register_results("shop::positive(Tensor x) -> Tensor", positive, 0);
  coil_operator_register_results("shop::extremes(Tensor x, *, float below, float above) -> (Tensor, Tensor, Tensor)",
                                 extremes, 0);
  coil_operator_register_results("shop::pieces(Tensor x) -> Tensor[]", pieces, 0);
  coil_operator_register_results("shop::drawn(Tensor(a!) x) -> Tensor", drawn, 0);
  coil_operator_register_results("shop::soft_step(Tensor x, float width=1.0) -> Tensor", soft_step, 0);
}
