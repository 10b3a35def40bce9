// Memory of a program for the CPU.
#pragma once
#include "head.h"

// @piece primitives_cpu
namespace {

// ---- The CPU, whose memory is the host's ----

constexpr int16_t on_host = 0, on_device = 0;

char* allocate(size_t bytes, void*& owner, int16_t) { return static_cast<char*>(owner = coil_alloc(bytes)); }
int copy_tensor(const coil_tensor* to, const coil_tensor* from) { return coil_tensor_copy(to, from); }
/// Between memory of the program and a value of the host's.
void get(void* to, const void* from, size_t bytes, int16_t = 0) { std::memcpy(to, from, bytes); }
void put(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
/// Whether kernels can read it where it lies.
bool is_readable(const coil_tensor&, int16_t) { return true; }
coil_op* create_op(const char* name) { return coil_op_create(name); }
inline coil_comm* open_comm(const char* group, size_t bytes, const char* plan) {
  return coil_comm_open(group, bytes, plan);
}
inline int require_group(const char* name, int64_t ranks) { return coil_group_require(name, ranks); }

}  // namespace
