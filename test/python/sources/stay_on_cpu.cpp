// Behind a program for the CPU, which has no device to stay on. test_emit_cpp_cuda.py
#include <cstdio>
int main() {
  coil_program* program = coil_program_open(nullptr);
  const int stays = coil_program_stay_on_device(program, nullptr);
  std::puts(coil_last_error());
  return !stays || coil_program_wait(program);
}
