// Behind a program for a GPU: runs whose outputs stay on the device, one that fails, and one in a place that there is
// not. test_emit_cpp_cuda.py
#include <cstdio>
#include <cstdlib>

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, coil_last_error());
  std::exit(1);
}

int main() {
  coil_program* program = coil_program_open(nullptr);
  must(program, "open");
  coil_queue* queue = coil_queue_open("cuda:0", "", nullptr, nullptr, 0);
  must(queue, "open a queue");
  std::vector<float> x(18);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k);
  int64_t good[2] = {2, -1}, bad[2] = {2, 6};
  void* owner = nullptr;
  auto* h = static_cast<char*>(coil_queue_alloc(queue, 64, &owner));
  must(h, "allocate");
  float zeros[6] = {}, seen[6];
  const coil_tensor none{zeros, COIL_F32, 2, 0, {2, 3}, {3, 1}, nullptr},
      looked{seen, COIL_F32, 2, 0, {2, 3}, {3, 1}, nullptr};
  // At an address that kernels can write to, at one that they cannot, and in columns.
  const coil_tensor places[] = {{h, COIL_F32, 2, 1, {2, 3}, {3, 1}, nullptr},
                                {h + 4, COIL_F32, 2, 1, {2, 3}, {3, 1}, nullptr},
                                {h, COIL_F32, 2, 1, {2, 3}, {1, 2}, nullptr}};
  coil_tensor inputs[3] = {{x.data(), COIL_F32, 2, 0, {6, 3}, {3, 1}, nullptr},
                           {good, COIL_I64, 1, 0, {2}, {1}, nullptr},
                           {}},
              outputs[5] = {};
  must(coil_program_stay_on_device(program, nullptr) == 0, "stay");
  int calls = 0;
  for (const coil_tensor& place : places) {
    must(coil_queue_copy(queue, &place, &none) == 0 && coil_queue_wait(queue) == 0, "clear");
    inputs[2] = place;
    for (int turn = 1; turn <= 2; ++turn) {
      ++calls;
      must(coil_program_run(program, inputs, 3, outputs, 5) == 0, "run");
      must(outputs[0].on_device && outputs[1].on_device && outputs[2].on_device && !outputs[4].on_device,
           "where outputs lie");
      must((outputs[1].data == place.data) == (&place == places) && (outputs[1].owner == nullptr) == (&place == places),
           "a view of the input");
      must(coil_program_wait(program) == 0, "wait");
      for (coil_tensor& t : outputs) must(coil_queue_bring(queue, &t) == 0, "bring");
      const auto* rows = static_cast<float*>(outputs[0].data);
      must(rows[0] == 6 && rows[3] == 15, "rows");
      must(*static_cast<float*>(outputs[2].data) == 2.0f * static_cast<float>(calls), "state");
      must(*static_cast<int64_t*>(outputs[4].data) == 12, "number");
      must(coil_queue_copy(queue, &looked, &place) == 0, "look");
      for (float v : seen) must(v == static_cast<float>(turn), "what was written to");
      for (coil_tensor& t : outputs) coil_tensor_release(&t);
    }
  }
  // The call that fails, and one that is queued before anybody looked.
  inputs[1].data = bad, inputs[2] = places[0];
  must(coil_queue_copy(queue, &places[0], &none) == 0 && coil_queue_wait(queue) == 0, "clear");
  const bool told = coil_program_run(program, inputs, 3, outputs, 5) != 0;
  for (coil_tensor& t : outputs) coil_tensor_release(&t);
  must(told || coil_program_wait(program) != 0, "no failure");
  must(std::string(coil_last_error()).find("an index read from a tensor is out of range") == 0, "another failure");
  must(coil_queue_copy(queue, &looked, &places[0]) == 0, "look");
  for (float v : seen) must(v == 0, "written to after the failure");
  inputs[1].data = good;
  must(coil_program_run(program, inputs, 3, outputs, 5) == 0 && coil_program_wait(program) == 0, "run after a failure");
  for (coil_tensor& t : outputs) coil_tensor_release(&t);
  inputs[2].on_device = 3;
  must(coil_program_run(program, inputs, 3, outputs, 5) != 0 &&
           std::string(coil_last_error())
                   .find("input 'h' lies in memory that the program does not take: its on_device is 3") == 0,
       "a place that there is not");
  coil_program_close(program);
  coil_free(owner);
  coil_queue_close(queue);
}
