// A program of its own, from files of tensors to files of tensors.
#pragma once
#include "entry.h"

// @piece main
#ifdef COIL_MAIN
#include <cstdio>

namespace {

void run_files(const char* from, const char* to, const char* weights) {
  coil_program* program = coil_program_open(weights);
  coil_file* file = program ? coil_file_open(from) : nullptr;
  if (!file) fail(coil_last_error());
  std::vector<coil_tensor> inputs(input_count), outputs(output_count);
  size_t found = 0;
  for (size_t i = 0; i < input_count; ++i) {
    inputs[i].dtype = input_ports[i].dtype;
    if (coil_file_find(file, input_ports[i].name, &inputs[i]) == 0)
      ++found;
    else if (!input_ports[i].unused)
      fail(std::string("input ") + input_ports[i].name + " is missing from " + from);
  }
  if (found != coil_file_count(file)) fail(std::string(from) + " has tensors that are no inputs of the program");
  check(coil_program_run(program, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
  std::vector<const char*> names;
  std::vector<coil_tensor> results;
  for (size_t i = 0; i < output_count; ++i) names.push_back(output_ports[i].name), results.push_back(outputs[i]);
  for (size_t i = 0; i < input_count; ++i)
    if (input_ports[i].mutated) names.push_back(input_ports[i].name), results.push_back(inputs[i]);
  check(coil_file_write(to, names.data(), results.data(), names.size()));
  for (coil_tensor& t : outputs) coil_tensor_release(&t);
  coil_file_close(file);
  coil_program_close(program);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s IN.safetensors OUT.safetensors [WEIGHTS]\n", argv[0]);
    return 2;
  }
  try {
    run_files(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "coil: error: %s\n", e.what());
    return 1;
  }
}
#endif
