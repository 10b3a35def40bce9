// Types, and what only a GPU has: PTX instructions, shuffles, atomics. cuda/emulated.h has the same for a CPU.
#pragma once

// @piece machine
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define C_FN static __device__ __forceinline__
#define C_METHOD __device__ __forceinline__
C_FN f32 c_f32_of(u32 x) { return __uint_as_float(x); }
C_FN u32 c_bits_of(f32 x) { return __float_as_uint(x); }
C_FN f64 c_f64_of(u64 x) { return __longlong_as_double((i64)x); }
C_FN u64 c_bits_of(f64 x) { return (u64)__double_as_longlong(x); }
C_FN f32 c_max_nan(f32 x, f32 y) {
  f32 r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
C_FN f32 c_min_nan(f32 x, f32 y) {
  f32 r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
  return r;
}
C_FN f32 c_get_f16(u16 x) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
C_FN u32 c_put_bf16_pair(f32 x, f32 y) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
C_FN u32 c_put_f16_pair(f32 x, f32 y) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
// Of two numbers at once: the conversion of one alone takes the slow way of special functions.
C_FN u16 c_put_bf16(f32 x) { return (u16)c_put_bf16_pair(x, 0.0f); }
C_FN u16 c_put_f16(f32 x) { return (u16)c_put_f16_pair(x, 0.0f); }
C_FN f32 c_ex2(f32 x) {
  f32 r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
C_FN f32 c_rcp_fast(f32 x) {
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
C_FN f32 c_product_of(f32 x, f32 y) { return __fmul_rn(x, y); }  // never a part of an fma
C_FN f64 c_erfinv_machine(f64 x) { return erfinv(x); }
C_FN u32 c_mul_high(u32 x, u32 y) { return __umulhi(x, y); }
#define c_shfl_xor(x, o) __shfl_xor_sync(0xffffffffu, x, o)
#define c_shfl_from(x, o) __shfl_sync(0xffffffffu, x, o)
#define c_shfl_up(x, o) __shfl_up_sync(0xffffffffu, x, o)
C_FN u32 c_popc(u32 x) { return __popc(x); }
// The lanes whose x has the same eight low bits.
C_FN u32 c_match(u32 x) {
  u32 same = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const u32 set = __ballot_sync(0xffffffffu, x >> bit & 1);
    same &= x >> bit & 1 ? set : ~set;
  }
  return same;
}
#define c_sync __syncthreads
#define c_sync_warp __syncwarp
C_FN void c_fence() { __threadfence(); }
// First in each kernel. With dependent launches it may begin while the one before it still runs, and waits for it here,
// before it touches memory.
#ifdef C_DEPENDENT
C_FN void c_begin() { asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory"); }
#else
C_FN void c_begin() {}
#endif
C_FN bool c_stop(const i64* status) {
  c_begin();
  return status && *(volatile const i64*)status;
}
// The host is told, and later kernels of the run, each at a word of its own (runtime/plan/plan.h).
C_FN void c_fail(i64* status) {
  *(volatile i64*)status[1] = 1;
  for (i64 k = 0; k < status[3]; ++k) ((volatile i64*)status[2])[4 * k] = 1;
}
// Blocks of one cluster: each waits until all have begun, and for what all have written; a block's shared variable as
// another block has it.
C_FN void c_cluster_begin() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory"); }
C_FN void c_cluster_begun() { asm volatile("barrier.cluster.wait.aligned;" : : : "memory"); }
C_FN void c_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" : : : "memory");
}
// What the compiler may not take for the value that it was.
C_FN void c_opaque(u32& x) { asm volatile("" : "+r"(x)); }
// Shared memory of as many bytes as the launch says.
#define C_DYNAMIC_SHARED(name) extern __shared__ uint4 name[]
// 16 bytes to shared memory, or zeros, and no wait for them until they are to have arrived.
#if __CUDA_ARCH__ >= 800
C_FN void c_copy_ahead(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"((u32)__cvta_generic_to_shared(to)), "l"((u64)__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
C_FN void c_copies_arrive() { asm volatile("cp.async.wait_all;" : : : "memory"); }
// Copies since the last of these belong together; all arrive but the last N of what belongs together.
C_FN void c_copies_begun() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N> C_FN void c_copies_arrive_but() { asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory"); }
// 16 by 8 numbers of a times 8 by 8 of b, of which the matrix unit takes the first 11 digits: a thread has rows lane /
// 4 and 8 further of columns lane % 4 and 4 further; rows lane % 4 and 4 further of column lane / 4.
C_FN void c_matrix_add(f32 (&d)[4], const f32 (&a)[4], const f32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(c_bits_of(a[0])), "r"(c_bits_of(a[1])), "r"(c_bits_of(a[2])), "r"(c_bits_of(a[3])), "r"(c_bits_of(b[0])),
        "r"(c_bits_of(b[1])));
}
// Four matrices of 8 by 8 in 16 bits: lanes 8 m to 8 m + 7 name the rows of matrix m. A thread has of each, as one
// word, elements lane % 4 * 2 and the next of row lane / 4; transposed, of column lane / 4.
C_FN void c_load_matrices(u32 (&r)[4], const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
C_FN void c_load_transposed(u32 (&r)[4], const u16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
// 16 by 16 numbers of a times 16 by 8 of b, in 16 bits. A thread has pairs of neighbours: of a in rows lane / 4 and 8
// further from column lane % 4 * 2 on, then in both rows 8 columns further; of b in column lane / 4 from row lane % 4 *
// 2 on, and 8 rows further; and of d in rows lane / 4 and 8 further from column lane % 4 * 2 on.
template <bool BF16> C_FN void c_matrix_add_16(f32 (&d)[4], const u32 (&a)[4], const u32* b) {
  if (BF16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
template <class T> C_FN T* c_shared_of(T* p, u32 rank) {
  T* q;
  asm("mapa.u64 %0, %1, %2;" : "=l"(q) : "l"(p), "r"(rank));
  return q;
}
C_FN u32 c_cas(u32* p, u32 old, u32 now) { return atomicCAS(p, old, now); }
C_FN u64 c_cas(u64* p, u64 old, u64 now) { return atomicCAS(p, old, now); }
C_FN u16 c_cas(u16* p, u16 old, u16 now) { return atomicCAS(p, old, now); }
C_FN i32 c_count(i32* p) { return atomicAdd(p, 1); }
C_FN void c_atomic_add(f32* p, f32 x) { atomicAdd(p, x); }
C_FN void c_atomic_add(f64* p, f64 x) { atomicAdd(p, x); }
C_FN void c_atomic_add(i32* p, i32 x) { atomicAdd(p, x); }
C_FN void c_atomic_add(i64* p, i64 x) { atomicAdd((u64*)p, (u64)x); }
// From sm_90 on: 16 bytes of neighbouring places in one update, each element's own.
#define C_ADDS_RUNS (__CUDA_ARCH__ >= 900)
#if C_ADDS_RUNS
C_FN u64 c_global(const void* p) { return (u64)__cvta_generic_to_global(p); }
C_FN void c_add_vector(f32* p, const f32* x) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(c_global(p)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}
C_FN void c_add_vector_bf16(u16* p, const u32* x) {
  asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};"
               :
               : "l"(c_global(p)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
C_FN void c_add_vector_f16(u16* p, const u32* x) {
  asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};"
               :
               : "l"(c_global(p)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
#endif
