#include "codegen/cuda/sort.h"

#include "codegen/cuda/body.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::codegen {

std::string_view cuda_prelude_sort() {
  return R"(
// ---- Sorting. Whether a stands before b: by value, equals by place.
template <class T> C_FN bool c_stands_before(T a, i64 i, T b, i64 j, bool descending) {
  const bool greater = a != a ? b == b : b == b && a > b, less = b != b ? a == a : a == a && a < b;
  return descending ? greater || (!less && i < j) : less || (!greater && i < j);
}
// A network of comparators that all put the earlier element first, so that a length that is no power of two needs no padding.
template <class Row> static __device__ void c_sort_row(Row row, i64 n, int t, int threads) {
  for (i64 k = 2; k < 2 * n; k *= 2)
    for (i64 j = k / 2; j > 0; j /= 2) {
      const bool flip = j == k / 2;
      for (i64 i = t; i < n; i += threads) {
        const i64 other = flip ? (i ^ (k - 1)) : (i ^ j);
        if (other > i && other < n) row.order(i, other);
      }
      c_sync();
    }
}
template <class E, class Get, bool D> struct c_shared_row {
  E* keys; i32* places; i64 base;
  C_METHOD void order(i64 i, i64 j) const {
    if (c_stands_before(Get::get(keys[j]), places[j], Get::get(keys[i]), places[i], D)) {
      const E e = keys[i]; keys[i] = keys[j]; keys[j] = e;
      const i32 p = places[i]; places[i] = places[j]; places[j] = p;
    }
  }
};
template <class E, class Get, bool D> struct c_strided_row {
  E* keys; i64* places; i64 key_step, place_step;
  C_METHOD void order(i64 i, i64 j) const {
    E &a = keys[i * key_step], &b = keys[j * key_step];
    i64 &p = places[i * place_step], &q = places[j * place_step];
    if (c_stands_before(Get::get(b), q, Get::get(a), p, D)) {
      const E e = a; a = b; b = e;
      const i64 r = p; p = q; q = r;
    }
  }
};
// The first k of n in order. `keys` and `places` hold C elements; with more than that, the best k stay in front and the rest of the row passes behind them.
template <int C, class Get, bool D, class E>
static __device__ void c_sort(const E* x, i64 x_step, E* values, i64 v_step, i64* indices, i64 i_step, i64 n, i64 k, E* keys, i32* places, int t, int threads) {
  if (n > C && k == n) {
    for (i64 i = t; i < n; i += threads) { values[i * v_step] = x[i * x_step]; indices[i * i_step] = i; }
    c_sync();
    return c_sort_row(c_strided_row<E, Get, D>{values, indices, v_step, i_step}, n, t, threads);
  }
  i64 held = 0;
  for (i64 from = 0; from < n;) {
    const i64 take = n - from < C - held ? n - from : C - held;
    for (i64 i = t; i < take; i += threads) { keys[held + i] = x[(from + i) * x_step]; places[held + i] = (i32)(from + i); }
    c_sync();
    c_sort_row(c_shared_row<E, Get, D>{keys, places, 0}, held + take, t, threads);
    held = held + take < k ? held + take : k;
    from += take;
  }
  for (i64 i = t; i < k; i += threads) { values[i * v_step] = keys[i]; indices[i * i_step] = places[i]; }
}
)";
}

Kernel cuda_sort(ir::Graph& graph, const ir::Extern& call) {
  const ir::BufferView &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  auto number = [&](const char* name, std::int64_t otherwise) {
    auto it = call.attributes.find(name);
    return it == call.attributes.end() ? otherwise : std::get<std::int64_t>(it->second);
  };
  const std::size_t rank = x.sizes.size();
  const auto dim = static_cast<std::size_t>(number("dim", 0) < 0 ? number("dim", 0) + static_cast<std::int64_t>(rank) : number("dim", 0));
  const bool descending = call.op == "topk" ? number("largest", 1) != 0 : number("descending", 0) != 0;
  const int capacity = size_of(x.dtype) <= 4 ? 4096 : 2048;
  const Expr length = rank ? x.sizes[dim] : Expr(1), taken = rank ? values.sizes[dim] : Expr(1);
  if (call.op == "topk" && !graph.env().statically_known_le(length, capacity) && !(taken == length)) {
    if (!graph.env().statically_known_le(taken, capacity / 2)) fail("topk takes at most {} of a row of more than {} on cuda", capacity / 2, capacity);
  }

  Kernel k;
  k.buffers = {x.buffer, values.buffer, indices.buffer};
  k.written = {false, true, true};
  std::string parameters, offsets[3];
  auto scalar = [&](Expr e) {
    parameters += fmt::format(", i64 n{}", k.scalars.size());
    k.scalars.push_back(e);
    return fmt::format("n{}", k.scalars.size() - 1);
  };
  const ir::BufferView* views[] = {&x, &values, &indices};
  for (int v = 0; v < 3; ++v) offsets[v] = scalar(views[v]->offset);
  Expr rows = 1;
  std::string decode = "  i64 w = blockIdx.x, r;\n";
  for (std::size_t d = rank; d-- > 0;) {
    if (d == dim) continue;
    const std::string size = scalar(x.sizes[d]);
    decode += fmt::format("  r = w % {0}; w /= {0};\n", size);
    for (int v = 0; v < 3; ++v) decode += fmt::format("  o{} += r * {};\n", v, scalar(views[v]->strides[d]));
    rows *= x.sizes[d];
  }
  std::string steps[3];
  for (int v = 0; v < 3; ++v) steps[v] = rank ? scalar(views[v]->strides[dim]) : "1";
  const std::string n = scalar(length), count = scalar(taken);
  constexpr int kThreads = 512;
  const std::string element = cuda_storage_type(x.dtype), dtype(short_name(x.dtype));
  std::string text = fmt::format("  __shared__ {} keys[{}];\n  __shared__ i32 places[{}];\n", element, capacity, capacity);
  text += fmt::format("  struct Get {{ static C_METHOD {} get({} e) {{ return c_get_{}(e); }} }};\n", cuda_register_type(ir::register_type(x.dtype)), element, dtype);
  for (int v = 0; v < 3; ++v) text += fmt::format("  i64 o{} = {};\n", v, offsets[v]);
  text += decode;
  text += fmt::format("  c_sort<{}, Get, {}>(p0 + o0, {}, p1 + o1, {}, p2 + o2, {}, {}, {}, keys, places, threadIdx.x, {});\n", capacity, descending, steps[0], steps[1], steps[2], n, count, kThreads);
  const std::string signature = fmt::format("(const {0}* p0, {0}* p1, i64* p2{1}, i64* status)", element, parameters);
  k.symbol = "coil_" + to_hex(hash(signature + text)).substr(0, 16);
  k.text = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}{} {{\n{}}}\n", kThreads, k.symbol, signature, text);
  // A block of no elements has nothing to do.
  k.launch = Launch{.grid = {graph.env().simplify(rows), 1, 1}, .block = kThreads};
  return k;
}

}  // namespace coil::codegen
