// The C functions of coil/runtime.h through which a program is used.
#pragma once
#include "runs_cpu.h"

// @piece entry
namespace {

template <class F> int guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    coil_set_error(e.what());
    return 1;
  }
}

}  // namespace

extern "C" {

coil_program* coil_program_open(const char* weights) {
  try {
    return new coil_program(weights);
  } catch (const std::exception& e) {
    coil_set_error(e.what());
    return nullptr;
  }
}

void coil_program_close(coil_program* program) { delete program; }

void coil_program_seed(coil_program* program, uint64_t seed) { program->seeds.state = seed; }

const coil_port* coil_program_inputs(const coil_program*, size_t* count) {
  *count = input_count;
  return input_ports;
}

const coil_port* coil_program_outputs(const coil_program*, size_t* count) {
  *count = output_count;
  return output_ports;
}

int coil_program_stay_on_device(coil_program* program, void* stream) {
  return guarded([&] { stay(*program, stream); });
}

int coil_program_wait(coil_program* program) {
  return guarded([&] { wait(*program); });
}

int coil_program_run(coil_program* program, const coil_tensor* inputs, size_t given, coil_tensor* outputs,
                     size_t wanted) {
  for (size_t i = 0; i < wanted; ++i) outputs[i] = {};
  const int failed = guarded([&] {
    if (given != input_count)
      fail("the program takes " + std::to_string(input_count) + " inputs, but " + std::to_string(given) +
           " were given");
    if (wanted != output_count)
      fail("the program has " + std::to_string(output_count) + " outputs, but room for " + std::to_string(wanted) +
           " was given");
    begin(*program);
    program->run(inputs, outputs);
    finish(*program, outputs);
  });
  for (size_t i = 0; failed && i < wanted; ++i) coil_tensor_release(&outputs[i]);
  return failed;
}

}  // extern "C"
