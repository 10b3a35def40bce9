// Compiles the trained digits network, classifies the held-out images, and says how well and how fast.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "coil/coil.h"

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Median milliseconds of a call.
double latency(coil::Model& model, const coil::Array& images) {
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    auto start = std::chrono::steady_clock::now();
    model.run({images});
    times.push_back(milliseconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + 100, times.end());
  return times[100];
}

int demo(const std::filesystem::path& folder) {
  auto start = std::chrono::steady_clock::now();
  coil::Model model = coil::Model::load(folder / "digits.pt2");
  double compile_ms = milliseconds_since(start);

  std::map<std::string, coil::Array> held_out = coil::read_arrays(folder / "held_out.safetensors");
  const coil::Array& images = held_out.at("images");
  const auto* labels = held_out.at("labels").as<std::int64_t>();
  coil::Array scores = model.run({images}).at(0);
  std::int64_t count = scores.sizes[0], classes = scores.sizes[1], right = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* row = scores.as<float>() + i * classes;
    right += std::max_element(row, row + classes) - row == labels[i];
  }
  coil::Array one = coil::Array::borrow(images.data.get(), images.dtype, {1, 1, 8, 8});
  std::printf("digits: %lld of %lld held-out images right (%.1f %%)\n", static_cast<long long>(right),
              static_cast<long long>(count), 100.0 * right / count);
  std::printf("compile %.0f ms, from digits.pt2 to ready to run\n", compile_ms);
  std::printf("latency %.3f ms for one image, %.3f ms for %lld\n", latency(model, one), latency(model, images),
              static_cast<long long>(count));
  std::printf("kernels %d, library calls %d\n", model.report().kernels, model.report().extern_calls);
  return right * 100 >= count * 97 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return demo(argc > 1 ? argv[1] : "examples/digits");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "digits_demo: error: %s\n", e.what());
    return 1;
  }
}
