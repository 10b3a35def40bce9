// Metal's names for Clang's C++ for OpenCL, whose address spaces are as strict as Metal's: to check the text of
// kernels.
#pragma OPENCL EXTENSION all : disable
#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private
#define kernel __kernel
template <class To, class From>
To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}
namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
float exp(float);
float exp2(float);
float log(float);
float log2(float);
float log10(float);
float sin(float);
float cos(float);
float tan(float);
float asin(float);
float acos(float);
float atan(float);
float sinh(float);
float cosh(float);
float tanh(float);
float asinh(float);
float acosh(float);
float atanh(float);
float fabs(float);
float sqrt(float);
float rint(float);
float floor(float);
float ceil(float);
float trunc(float);
float atan2(float, float);
float pow(float, float);
float fmax(float, float);
float fma(float, float, float);
uint clz(uint);
ulong clz(ulong);
uint mulhi(uint, uint);
float simd_shuffle(float, ushort);
float simd_shuffle_xor(float, ushort);
float simd_shuffle_up(float, ushort);
int simd_shuffle(int, ushort);
int simd_shuffle_xor(int, ushort);
int simd_shuffle_up(int, ushort);
uint simd_shuffle(uint, ushort);
uint simd_shuffle_xor(uint, ushort);
uint simd_shuffle_up(uint, ushort);
uint2 simd_shuffle(uint2, ushort);
uint2 simd_shuffle_xor(uint2, ushort);
uint2 simd_shuffle_up(uint2, ushort);

enum memory_order { memory_order_relaxed };
struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};
struct atomic_float {
  float value;
};
uint atomic_fetch_add_explicit(device atomic_uint*, uint, memory_order);
int atomic_fetch_add_explicit(device atomic_int*, int, memory_order);
float atomic_fetch_add_explicit(device atomic_float*, float, memory_order);
int atomic_fetch_add_explicit(threadgroup atomic_int*, int, memory_order);
int atomic_load_explicit(const threadgroup atomic_int*, memory_order);
void atomic_store_explicit(threadgroup atomic_int*, int, memory_order);
uint atomic_load_explicit(const device atomic_uint*, memory_order);
bool atomic_compare_exchange_weak_explicit(device atomic_uint*, thread uint*, uint, memory_order, memory_order);
}  // namespace metal
