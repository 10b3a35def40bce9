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
#define C_LARGE_FN static __device__
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
// The instruction converts two numbers at once. The one for a single number runs at the slow rate of special functions.
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
// Never a part of an fma.
C_FN f32 c_product_of(f32 x, f32 y) { return __fmul_rn(x, y); }
C_FN f64 c_product_of(f64 x, f64 y) { return __dmul_rn(x, y); }
C_FN f64 c_erfinv_machine(f64 x) { return erfinv(x); }
// cos and sin of 2 pi k / n.
C_FN void c_turn(int k, int n, f32& c, f32& s) { sincospif((f32)(2 * k) / (f32)n, &s, &c); }
C_FN void c_turn(int k, int n, f64& c, f64& s) { sincospi((f64)(2 * k) / (f64)n, &s, &c); }
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
// The first N threads of a block wait for one another.
template <int N> C_FN void c_sync_first() { asm volatile("bar.sync 1, %0;" ::"n"(N) : "memory"); }
C_FN void c_fence() { __threadfence(); }
// First in each kernel. With dependent launches it may begin while the one before it still runs, and waits for it here,
// before it touches memory.
#ifdef C_DEPENDENT
C_FN void c_begin() { asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory"); }
#else
C_FN void c_begin() {}
#endif
C_FN u32 c_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
C_FN u64 c_nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
// Sixteen bytes of memory that other devices read and write. Each half, eight bytes, is written and seen as a whole.
struct alignas(16) c_line {
  u32 low, first, high, second;
};
C_FN void c_put_line(c_line* to, u32 low, u32 first, u32 high, u32 second) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(low), "r"(first), "r"(high), "r"(second)
               : "memory");
}
C_FN c_line c_get_line(const c_line* at) {
  c_line r;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.low), "=r"(r.first), "=r"(r.high), "=r"(r.second)
               : "l"(__cvta_generic_to_global(at))
               : "memory");
  return r;
}
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
// 16 bytes that are read at one place and not again.
C_FN uint4 c_read_once(const void* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"((u64)__cvta_generic_to_global(p)));
  return v;
}
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
// What only this family of GPUs has: four warps multiply matrices that lie in shared memory, while they go on.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define C_WARPGROUPS 1
// A matrix whose dense dimension lies in pieces of 128 bytes, 16 bytes of them exchanged by the number of the piece
// modulo 8, from a multiple of 1,024 bytes on. `groups`: bytes from eight pieces to the next eight; `blocks`: to the
// next 64 elements of the dense dimension, where that is not the one that is summed over.
C_FN u64 c_shared_matrix(const u16* at, u32 groups, u32 blocks) {
  const u64 address = (u64)((u32)__cvta_generic_to_shared(at) >> 4 & 0x3fffu);
  return address | (u64)(blocks >> 4) << 16 | (u64)(groups >> 4) << 32 | (u64)1 << 62;
}
// Between copies to shared memory, which have arrived, and products that read them.
C_FN void c_shared_written() { asm volatile("fence.proxy.async;" : : : "memory"); }
C_FN void c_warpgroup_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
C_FN void c_warpgroup_begun() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int N> C_FN void c_warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
}
// Registers of a thread as the instruction names them, and as operands.
#define C_NAMES_64                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define C_NAMES_96                                                                             \
  C_NAMES_64                                                                                   \
  ", "                                                                                         \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define C_NAMES_128                                                                              \
  C_NAMES_64                                                                                     \
  ", "                                                                                           \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define C_SUMS_64(d)                                                                                          \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), \
      "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),  \
      "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), \
      "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), \
      "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), \
      "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
      "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), \
      "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define C_SUMS_96(d)                                                                                          \
  C_SUMS_64(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]),    \
      "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), \
      "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), \
      "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), \
      "+f"(d[95])
#define C_SUMS_128(d)                                                                                                 \
  C_SUMS_64(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]),            \
      "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),         \
      "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]),         \
      "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]),         \
      "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]),      \
      "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), \
      "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), \
      "+f"(d[119]), "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), \
      "+f"(d[127])
// d += 64 by 16 numbers of a times 16 by 128, 192 or 256 of b, whose rows (ACROSS) or columns are dense. Warp w of the
// four has rows 16 w and on; a thread has pairs as in c_matrix_add_16, eight columns after eight columns: SUMS in all.
// In the instruction's text the sums are operands 0 and on; A, B and T are the numbers of a, of b and of ACROSS.
#define C_WARPGROUP_ADD_OF(TYPE, COLUMNS, SUMS, A, B, T)                                                   \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." #TYPE "." #TYPE " {" C_NAMES_##SUMS \
               "}, %" #A ", %" #B ", 1, 1, 1, 0, %" #T ";"                                                 \
               : C_SUMS_##SUMS(d)                                                                          \
               : "l"(a), "l"(b), "n"(ACROSS))
#define C_WARPGROUP_ADD(COLUMNS, SUMS, A, B, T)                                             \
  template <bool BF16, int ACROSS> C_FN void c_warpgroup_add(f32(&d)[SUMS], u64 a, u64 b) { \
    if (BF16)                                                                               \
      C_WARPGROUP_ADD_OF(bf16, COLUMNS, SUMS, A, B, T);                                     \
    else                                                                                    \
      C_WARPGROUP_ADD_OF(f16, COLUMNS, SUMS, A, B, T);                                      \
  }
C_WARPGROUP_ADD(128, 64, 64, 65, 66)
C_WARPGROUP_ADD(192, 96, 96, 97, 98)
C_WARPGROUP_ADD(256, 128, 128, 129, 130)
C_FN void c_opaque(f32& x) { asm volatile("" : "+f"(x) : : "memory"); }
// Registers of a thread, for all threads of its warpgroup alike: some give theirs to others.
template <int N> C_FN void c_take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N)); }
template <int N> C_FN void c_give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N)); }
// Barriers in shared memory that count threads and bytes on their way. One is over, and its next phase begins, when so
// many threads have come as it was made for and all bytes that were announced; phases are even and odd in turns.
C_FN void c_barrier_make(u64* barrier, u32 threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"((u32)__cvta_generic_to_shared(barrier)), "r"(threads));
}
C_FN void c_barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); }
C_FN void c_barrier_announce(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"((u32)__cvta_generic_to_shared(barrier)), "r"(bytes)
               : "memory");
}
// At the barrier that lies at the same place in block `rank` of the cluster.
C_FN void c_barrier_arrive(u64* barrier, u32 rank) {
  asm volatile(
      "{\n\t.reg .b32 at;\n\tmapa.shared::cluster.u32 at, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [at];\n\t}"
      :
      : "r"((u32)__cvta_generic_to_shared(barrier)), "r"(rank)
      : "memory");
}
C_FN void c_barrier_wait(u64* barrier, u32 phase) {
  asm volatile(
      "{\n\t.reg .pred over;\n\tagain:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n\t@!over bra again;\n\t}"
      :
      : "r"((u32)__cvta_generic_to_shared(barrier)), "r"(phase)
      : "memory");
}
// A descriptor of a tensor and its tiles, as the driver makes it; a kernel has it among its arguments.
struct alignas(64) c_tile_map {
  u64 words[16];
};
C_FN void c_map_ahead(const c_tile_map& map) { asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory"); }
// The tile at (x, y, z), innermost first, to shared memory of this block, or of all blocks of the cluster whose bits
// are set, at the same place in each; the barrier, likewise, counts its bytes. What lies outside of the tensor is zero.
C_FN void c_fetch_tile(u16* to, const c_tile_map& map, u64* barrier, i32 x, i32 y, i32 z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
      :
      : "r"((u32)__cvta_generic_to_shared(to)), "l"(&map), "r"((u32)__cvta_generic_to_shared(barrier)), "r"(x), "r"(y),
        "r"(z)
      : "memory");
}
C_FN void c_fetch_tile(u16* to, const c_tile_map& map, u64* barrier, i32 x, i32 y, i32 z, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;"
      :
      : "r"((u32)__cvta_generic_to_shared(to)), "l"(&map), "r"((u32)__cvta_generic_to_shared(barrier)), "r"(x), "r"(y),
        "r"(z), "h"(blocks)
      : "memory");
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
// Counters that the threads of a block share.
typedef i32 c_counter;
C_FN i32 c_counted(const c_counter* p) { return *p; }
C_FN void c_count_from(c_counter* p, i32 x) { *p = x; }
C_FN i32 c_count(c_counter* p) { return atomicAdd(p, 1); }
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
