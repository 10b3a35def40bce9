// The command: which devices the tests are for.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "coil/coil.h"
#include "place.h"
#include "support/error.h"

namespace coil::conformance {
namespace {

constexpr char kUsage[] =
    "device_conformance [--load LIBRARY.so] [--device NAME] ... [GoogleTest's own flags]\n\n"
    "NAME: cpu, emulated (CUDA's kernels on the CPU), fake (the driver of test/fake_cuda), cuda, or a kind of device\n"
    "that a library brings. Without any: cpu, emulated, fake where its driver was built, cuda where there is a GPU.\n";

Place place_of(const std::string& name) {
  if (name == "emulated") return {name, {}, {{"cuda.emulate", "true"}}};
  if (name == "fake") return {.name = name, .device = {DeviceType::CUDA, 0}, .settings = {}, .compiles = false};
  const Device device = parse_device(name);
  return {device.type.name(), device, {}};
}

bool opens(const Place& place) {
  try {
    place.open()->make_queue();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void read_command(int count, char** arguments) {
  for (int i = 1; i < count; i += 2) {
    const std::string_view flag = arguments[i];
    if (i + 1 == count) fail("{} stands alone; the command is\n{}", flag, kUsage);
    if (flag == "--load")
      load_library(arguments[i + 1]);
    else if (flag == "--device")
      places().push_back(place_of(arguments[i + 1]));
    else
      fail("{}: expected --load LIBRARY or --device NAME", flag);
  }
  if (!places().empty()) return;
  places() = {place_of("cpu"), place_of("emulated")};
  for (const char* name : {"fake", "cuda"})
    if (Place place = place_of(name); opens(place)) places().push_back(std::move(place));
}

int run(int count, char** arguments) {
  // GoogleTest takes its own flags out, and makes the tests for the places that are known then.
  std::vector<char*> own{arguments[0]}, rest{arguments[0]};
  for (int i = 1; i < count; ++i)
    (std::string_view(arguments[i]).starts_with("--gtest") ? rest : own).push_back(arguments[i]);
  if (own.size() == 2 && std::string_view(own[1]) == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  read_command(static_cast<int>(own.size()), own.data());
  int left = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  testing::InitGoogleTest(&left, rest.data());
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace coil::conformance

int main(int count, char** arguments) try {
  return coil::conformance::run(count, arguments);
} catch (const coil::Error& e) {
  std::fputs(fmt::format("device_conformance: {}\n", e.what()).c_str(), stderr);
  return 1;
}
