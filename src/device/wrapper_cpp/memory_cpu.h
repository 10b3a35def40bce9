// Where weights are in a program for the CPU.
#pragma once
#include "helpers.h"

// @piece memory_cpu
namespace {

/// Weights are used where the file is mapped.
struct Placed {
  char* at(const char*, char* data, size_t) { return data; }
};

}  // namespace
