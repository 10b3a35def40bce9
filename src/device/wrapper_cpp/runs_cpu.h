// What begins and ends a run on the CPU.
#pragma once
#include "weights.h"

// @piece runs_cpu
namespace {

void begin(coil_program&) {}
void finish(coil_program&, coil_tensor*) {}
[[noreturn]] void stay(coil_program&, void*) {
  fail(
      "the program runs on the cpu, whose memory is the host's: its outputs have no other place to stay in, and its "
      "runs no stream");
}
void wait(coil_program&) {}

}  // namespace
