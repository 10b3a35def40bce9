// Runs a model on an input of ones: ./ones MODEL.pt2|MODEL.coil
#include <coil/coil.h>

#include <cstdio>

int main(int argc, char** argv) try {
  coil::Model model = coil::Model::load(argc > 1 ? argv[1] : "model.pt2");
  std::vector<coil::Array> inputs;
  std::vector<std::vector<float>> memory;  // borrowed by the arrays while calls run
  for (const coil::Port& port : model.inputs()) {
    std::vector<std::int64_t> sizes = port.sizes;
    std::size_t count = 1;
    for (std::int64_t& size : sizes) count *= size = size < 0 ? 1 : size;
    inputs.push_back(coil::Array::borrow(memory.emplace_back(count, 1.0f).data(), port.dtype, sizes));
  }
  for (const coil::Array& output : model.run(inputs))
    std::printf("%s, first element %g\n", output.dtype.c_str(), *output.as<float>());
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
