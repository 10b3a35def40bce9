// A C++ host of packages for torch: loads one with torch's loader, calls it, exchanges its weights, and survives what
// is wrong. Usage: aoti_loader PACKAGE; the program is y = weight * x + calls, with `weight` [3] and the state `calls`.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <ATen/ATen.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string("not so: ") + what);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) try {
  require(argc == 2, "one argument");
  torch::inductor::AOTIModelPackageLoader loader(argv[1], "model", false, 2);
  const at::Tensor x = at::arange(3, at::kFloat), weight = at::full({3}, 2.0f), other = at::full({3}, -1.0f);
  const auto call = [&] { return loader.run({x}).at(0); };
  require(at::equal(call(), weight * x + 1), "the first call");
  require(at::equal(call(), weight * x + 2), "the state goes on");
  require(loader.get_call_spec().size() == 2, "two specs");
  require(loader.get_metadata().at("AOTI_DEVICE_KEY") == "cpu", "its device");

  std::unordered_map<std::string, at::Tensor> weights{{"weight", other}};
  loader.load_constants(weights, false, false);
  require(at::equal(call(), other * x + 3), "another weight");
  weights["weight"] = weight;
  loader.load_constants(weights, true, true);
  loader.get_runner()->swap_constant_buffer();
  require(at::equal(call(), weight * x + 4), "the other set");

  const std::string wrong = error_of([&] { loader.run({x.to(at::kDouble)}); });
  require(wrong.find("'x' is float64") != std::string::npos, wrong.c_str());
  weights["weight"] = at::ones({3}, at::kInt);
  const std::string refused = error_of([&] { loader.load_constants(weights, false, false); });
  require(refused.find("weight 'weight' is float32[3], but int32[3] was given") != std::string::npos, refused.c_str());
  require(at::equal(call(), weight * x + 5), "the call after");

  std::thread second([&] { require(at::equal(call(), weight * x + 6), "on another thread"); });
  second.join();
  std::puts("all is well");
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
