// What processes and threads share besides a model: the folder of compiled kernels, packages on disk, the list of
// registered operators, the listener to messages.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>

#include "at_once.h"
#include "codegen/binary_cache.h"
#include "codegen/cpp/toolchain.h"
#include "coil/runtime.h"
#include "runtime/plan/package.h"
#include "runtime_plans.h"

namespace coil {
namespace {

namespace fs = std::filesystem;
constexpr int kThreads = 4;

struct SharedFolder : testing::Test {
  fs::path path;
  SharedFolder() {
    std::string pattern = (fs::temp_directory_path() / "coil-threads-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~SharedFolder() override { fs::remove_all(path); }

  static void at_once(const std::function<int(int)>& work) { test::at_once(kThreads, work); }
};

TEST_F(SharedFolder, AnEntryIsAMissOrWhole) {
  at_once([&](int t) {
    int wrong = 0;
    for (int i = 0; i < 40; ++i) {
      const fs::path entry = path / std::to_string(i % 8);
      std::vector<std::byte> binary(static_cast<std::size_t>(10'000 + i % 8), static_cast<std::byte>(i % 8));
      if (t % 2 == 0) codegen::write_binary(entry, binary);
      if (const auto found = codegen::read_binary(entry)) wrong += *found != binary;
    }
    return wrong;
  });
}

TEST_F(SharedFolder, ThreadsThatCompileTheSameKernelGetTheSame) {
  const codegen::Toolchain toolchain = codegen::find_toolchain();
  const std::vector<std::string> sources{"extern \"C\" int a() { return 1; }\n",
                                         "extern \"C\" int b() { return 2; }\n"};
  std::vector<std::vector<std::vector<std::byte>>> made(kThreads);
  at_once([&](int t) {
    made[static_cast<std::size_t>(t)] = codegen::compile_shared(toolchain, sources, {.jobs = 2, .cache_folder = path});
    return made[static_cast<std::size_t>(t)].size() != 2;
  });
  for (const auto& one : made) EXPECT_EQ(one, made[0]);
}

TEST_F(SharedFolder, PackagesAreReadWhileTheyAreWritten) {
  runtime::StoredProgram program;
  program.kernel_source = "nothing";
  program.plan.model_name = "shared";
  runtime::save_package(program, path / "m.coil");
  at_once([&](int t) {
    int wrong = 0;
    for (int i = 0; i < 20; ++i) {
      if (t == 0)
        runtime::save_package(program, path / "m.coil");
      else
        wrong += runtime::load_program(path / "m.coil", runtime::WeightCheck::Hash).plan.model_name != "shared";
    }
    return wrong;
  });
}

TEST_F(SharedFolder, OperatorsAreRegisteredWhileOthersAreLookedUp) {
  static std::atomic<int> told{0};
  at_once([&](int t) {
    int wrong = 0;
    for (int i = 0; i < 20; ++i) {
      const std::string schema = fmt::format("threads::op_{}_{}(Tensor x) -> Tensor", t, i);
      wrong += coil_operator_register(
                   schema.c_str(), [](const coil_value*, size_t, const coil_tensor*, size_t, void*) { return 0; },
                   nullptr) != 0;
      wrong += coil_operator_find(fmt::format("threads.op_{}_{}.default", t, i).c_str(), schema.c_str()) == nullptr;
      if (t == 0) coil_set_log(i % 2 ? +[](int, const char*, void*) { ++told; } : nullptr, nullptr);
      if (coil_model* model = coil_model_load((path / "absent.coil").c_str())) coil_model_free(model), ++wrong;
      wrong += std::string_view(coil_last_error()).find("absent.coil") == std::string_view::npos;
    }
    return wrong;
  });
  coil_set_log(nullptr, nullptr);
}

}  // namespace
}  // namespace coil
