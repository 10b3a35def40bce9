// What begins and ends a run on a GPU.
#pragma once
#include "weights.h"

// @piece runs_gpu
namespace {

void begin(coil_program& p) {
  current = &p.queue;
  p.queue.reads_host = false;
  p.failures.look();
}
void finish(coil_program& p, coil_tensor* outputs) {
  if (!p.queue.stays || p.queue.reads_host) p.failures.check();
  if (p.queue.stays) return;
  for (size_t i = 0; i < output_count; ++i) check(coil_queue_bring(p.queue.handle, &outputs[i]));
}
void stay(coil_program& p, void* stream) { p.queue.stay(stream); }
void wait(coil_program& p) {
  current = &p.queue;
  p.failures.check();
}

}  // namespace
