// Launch configs by measurement: what is timed, what is taken, what is remembered, and times on the driver of
// test/fake_cuda.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../fake_cuda/fake_cuda.h"
#include "autotune/cuda_timer.h"
#include "autotune/launches.h"
#include "autotune/own_products.h"
#include "autotune/products.h"
#include "codegen/cuda/backend.h"
#include "codegen/triton/backend.h"
#include "error_of.h"
#include "frontend/graph_builder.h"
#include "gpu_plans.h"
#include "ir/tensor_box.h"
#include "lowering/lowering.h"
#include "support/file.h"
#include "temporary_folder.h"

namespace coil {
namespace {

using autotune::Trial;

/// The CUDA backend's texts, and no compiler behind them.
class TextBackend : public codegen::Backend {
 public:
  const target::Target& target() const override { return cuda_->target(); }
  const scheduler::Choices& choices() const override { return cuda_->choices(); }
  codegen::Kernel group(ir::Graph& graph, const scheduler::Group& group) const override {
    return cuda_->group(graph, group);
  }
  codegen::Kernel scatter(ir::Graph& graph, const ir::Operation& op) const override {
    return cuda_->scatter(graph, op);
  }
  bool has_template(std::string_view) const override { return false; }
  codegen::Kernel template_kernel(ir::Graph& graph, const ir::Extern& call) const override {
    return cuda_->template_kernel(graph, call);
  }
  codegen::Binaries compile(std::span<const std::string> kernels, const codegen::CompileKernels&) const override {
    compiled += kernels.size();
    return {};
  }
  mutable std::size_t compiled = 0;

 private:
  std::unique_ptr<codegen::Backend> cuda_ = codegen::make_cuda_backend({.arch = "sm_90"});
};

/// Says that the trial of number `fastest` takes `ratio` of the time of the others.
class SaidTimes : public autotune::Timer {
 public:
  explicit SaidTimes(std::size_t fastest, double ratio = 0.5, std::string identity = "GPU A, CUDA 13000")
      : fastest_(fastest), ratio_(ratio), identity_(std::move(identity)) {}
  const std::string& identity() const override { return identity_; }
  void load(std::span<const std::vector<std::byte>>) override { ++loads; }
  std::vector<std::optional<double>> time(std::span<const Trial> trials) override {
    timed.emplace_back(trials.begin(), trials.end());
    std::vector<std::optional<double>> out(trials.size(), 1.0);
    for (std::size_t k : failing) out[k] = std::nullopt;
    if (fastest_ < out.size()) out[fastest_] = ratio_;
    return out;
  }
  int loads = 0;
  std::vector<std::size_t> failing;
  std::vector<std::vector<Trial>> timed;

 private:
  std::size_t fastest_;
  double ratio_;
  std::string identity_;
};

struct Autotune : testing::Test {
  std::shared_ptr<sym::ShapeEnv> env = std::make_shared<sym::ShapeEnv>();
  ir::Graph graph{env};
  TextBackend backend;
  TemporaryFolder cache;

  /// The sum of each row of f32[rows, columns], `count` times from other inputs: one kernel's text.
  void row_sums(sym::Expr rows, sym::Expr columns, int count = 1) {
    for (int k = 0; k < count; ++k) {
      const sym::Exprs sizes{rows, columns};
      const ir::TensorBox x =
          ir::whole(graph, graph
                               .add_buffer(fmt::format("x{}", k), ir::BufferKind::Input,
                                           {DType::F32, {}, sizes, sym::contiguous_strides(sizes), true})
                               .id);
      const sym::Exprs at{graph.ivar(0), graph.rvar(0)};
      const ir::TensorBox sum =
          ir::make_reduction(graph, DType::F32, {}, {rows}, {columns}, ir::ReductionKind::Sum,
                             x.load(at, std::vector<sym::LoopVar>{{at[0], rows}, {at[1], columns}}));
      sum.realize();
      graph.outputs.push_back({fmt::format("output{}", k), *sum.strided()});
    }
  }
  std::vector<int> choose(autotune::Timer& timer, bool remember = true) {
    scheduler::Schedule schedule = scheduler::schedule(graph, backend.choices());
    said = autotune::choose_launches(graph, schedule, backend, timer,
                                     {.cache = remember ? std::optional(cache.path()) : std::nullopt, .told = told});
    std::vector<int> configs;
    for (const auto& item : schedule.items) configs.push_back(std::get<scheduler::Group>(item).launch_config);
    return configs;
  }
  std::string said;
  autotune::ToldSizes told;
};

TEST_F(Autotune, ConfigsDifferInTextAndTheHeuristicsComesFirst) {
  row_sums(16384, 8192);
  SaidTimes timer(99);
  EXPECT_EQ(choose(timer), std::vector<int>{0}) << "none was faster";
  ASSERT_EQ(timer.timed.size(), 1u);
  const std::vector<Trial>& trials = timer.timed[0];
  EXPECT_GE(trials.size(), 3u);
  const scheduler::Schedule schedule = scheduler::schedule(graph, backend.choices());
  EXPECT_EQ(trials[0].symbol, backend.group(graph, std::get<scheduler::Group>(schedule.items.at(0))).symbol);
  EXPECT_EQ(trials[0].buffers, (std::vector<std::uint64_t>{std::uint64_t{16384} * 8192 * 4, 16384 * 4}));
  for (std::size_t k = 0; k < trials.size(); ++k)
    for (std::size_t j = 0; j < k; ++j) EXPECT_NE(trials[k], trials[j]) << "a config is timed once";
  EXPECT_EQ(backend.compiled, trials.size());
}

TEST_F(Autotune, TheFastestIsTakenForEachKernelOfTheTextAndMeasuredOnce) {
  row_sums(16384, 8192, 3);
  SaidTimes timer(2);
  const std::vector<int> configs = choose(timer);
  ASSERT_EQ(configs.size(), 3u);
  EXPECT_EQ(std::set<int>(configs.begin(), configs.end()).size(), 1u);
  EXPECT_GT(configs[0], 0);
  EXPECT_EQ(timer.timed.size(), 1u);
  EXPECT_EQ(timer.loads, 1);
}

TEST_F(Autotune, WhatWasFoundIsTakenAgainWithoutAMeasurement) {
  row_sums(16384, 8192);
  SaidTimes first(2), second(1);
  const std::vector<int> found = choose(first);
  const std::size_t compiled = backend.compiled;
  EXPECT_EQ(choose(second), found);
  EXPECT_TRUE(second.timed.empty());
  EXPECT_EQ(second.loads, 0);
  EXPECT_EQ(backend.compiled, compiled);
  EXPECT_TRUE(has(said, "remembered"));
}

TEST_F(Autotune, ATornEntryAndAnotherCompilersEntryAreMeasuredAgain) {
  row_sums(16384, 8192);
  SaidTimes first(2);
  const std::vector<int> found = choose(first);
  const auto entries = cache.entries();
  ASSERT_EQ(entries.size(), 1u);
  const std::string whole = read_file(cache / entries[0]);
  std::ofstream(cache / entries[0], std::ios::binary) << whole.substr(0, whole.size() / 2);
  SaidTimes second(2);
  EXPECT_EQ(choose(second), found);
  EXPECT_EQ(second.timed.size(), 1u) << "the torn entry is no answer";
  EXPECT_EQ(read_file(cache / entries[0]), whole) << "and is replaced";

  // A whole entry of another kernel: the symbol is not that of the config with this number.
  row_sums(64, 100000);
  SaidTimes third(1);
  choose(third);
  for (const std::string& name : cache.entries())
    if (name != entries[0])
      std::filesystem::copy_file(cache / name, cache / entries[0], std::filesystem::copy_options::overwrite_existing);
  SaidTimes fourth(2);
  choose(fourth);
  EXPECT_EQ(fourth.timed.size(), 1u);
}

TEST_F(Autotune, AnotherDeviceOrDriverIsMeasuredByItself) {
  row_sums(16384, 8192);
  SaidTimes first(2), other_device(1, 0.5, "GPU B, CUDA 13000"), other_driver(1, 0.5, "GPU A, CUDA 13010");
  const std::vector<int> found = choose(first), there = choose(other_device);
  EXPECT_NE(there, found);
  EXPECT_EQ(other_device.timed.size(), 1u);
  choose(other_driver);
  EXPECT_EQ(other_driver.timed.size(), 1u);
  SaidTimes again(3);
  EXPECT_EQ(choose(again), found) << "the first device's entry is still its own";
}

TEST_F(Autotune, WhatIsHardlyFasterIsNotTaken) {
  row_sums(16384, 8192);
  SaidTimes timer(2, 0.98);
  EXPECT_EQ(choose(timer), std::vector<int>{0});
}

TEST_F(Autotune, ConfigsThatDoNotRunAreLeftOut) {
  row_sums(16384, 8192);
  SaidTimes timer(1, 0.5);
  timer.failing = {0, 2};
  EXPECT_GT(choose(timer, false).at(0), 0) << "the usual one failed";
  EXPECT_TRUE(has(said, "failed"));
  EXPECT_TRUE(cache.entries().empty());
}

TEST_F(Autotune, SizesWithoutAHintAreLeftToHeuristics) {
  row_sums(env->add_size("s0", std::nullopt), 8192);
  SaidTimes timer(1);
  EXPECT_EQ(choose(timer), std::vector<int>{0});
  EXPECT_TRUE(timer.timed.empty());
}

TEST_F(Autotune, SizesAreTimedAtTheirHints) {
  row_sums(env->add_size("s0", 5000), 8192);
  SaidTimes timer(1);
  EXPECT_GT(choose(timer).at(0), 0);
  ASSERT_EQ(timer.timed.size(), 1u);
  EXPECT_EQ(timer.timed[0][0].buffers[0], std::uint64_t{5000} * 8192 * 4);
}

TEST_F(Autotune, SizesThatDataTellAreTimedAsOnTheExampleInputs) {
  row_sums(env->add_unbacked("u0", {0, 100000}), 8192);
  told = {{"u0", 600}};
  SaidTimes timer(1);
  EXPECT_GT(choose(timer).at(0), 0);
  ASSERT_EQ(timer.timed.size(), 1u);
  EXPECT_EQ(timer.timed[0][0].buffers[0], std::uint64_t{600} * 8192 * 4);
}

TEST_F(Autotune, SizesThatNobodyTellsAreTimedAtANumberInTheirRange) {
  row_sums(env->add_unbacked("u0", {0, sym::Range::kMax}), 8192);
  SaidTimes timer(1);
  EXPECT_GT(choose(timer, false).at(0), 0);
  EXPECT_EQ(timer.timed.at(0)[0].buffers[0], std::uint64_t{autotune::MeasuredSizes::kUntold} * 8192 * 4);
  const sym::Expr few = env->add_unbacked("u1", {2, 12});
  EXPECT_EQ(autotune::MeasuredSizes(*env, told)(few * 2), 24);
  EXPECT_EQ(autotune::MeasuredSizes(*env, told)(few + env->add_size("s0", std::nullopt)), std::nullopt);
}

TEST_F(Autotune, AnInputThatIsWrittenToIsOneBuffer) {
  frontend::GraphBuilder b;
  auto* x = b.input("x", DType::F32, {4096, 4096});
  const auto module = b.build({b.op("aten.add.Tensor", {x, 1.0})});
  module->outputs.clear();
  module->mutations = {{fx::Mutation::Target::Input, "x", 0}};
  const auto written = lowering::lower(*module);
  scheduler::Schedule schedule = scheduler::schedule(*written, backend.choices());
  SaidTimes timer(1);
  autotune::choose_launches(*written, schedule, backend, timer, {});
  ASSERT_EQ(timer.timed.size(), 1u);
  for (const Trial& t : timer.timed[0]) EXPECT_EQ(t.buffers, (std::vector<std::uint64_t>{4096ull * 4096 * 4}));
}

// ---- Two languages

struct TwoLanguages : Autotune {
  std::unique_ptr<codegen::Backend> both = codegen::make_triton_backend(
      std::shared_ptr<const codegen::Backend>(&backend, [](const codegen::Backend*) {}), 0, true);
  std::size_t in_triton = 0;  ///< kernels that Triton was asked for

  autotune::LaunchOptions options() {
    return {.cache = cache.path(), .compile_triton = [&](auto kernels) {
              autotune::LaunchOptions::Kernels out;
              for (const auto& k : kernels) {
                ops::UserKernel made = *k;
                made.binary = {std::byte{1}}, made.block = 64, made.shared_bytes = 48;
                made.parameters.insert(made.parameters.end(), 2, {"scratch", ops::UserKernel::Kind::Constant});
                out.push_back(std::make_shared<const ops::UserKernel>(std::move(made)));
              }
              in_triton += out.size();
              return out;
            }};
  }
  codegen::Kernel chosen(autotune::Timer& timer, const autotune::LaunchOptions& given) {
    scheduler::Schedule schedule = scheduler::schedule(graph, both->choices());
    said = autotune::choose_launches(graph, schedule, *both, timer, given);
    return both->group(graph, std::get<scheduler::Group>(schedule.items.at(0)));
  }
};

TEST_F(TwoLanguages, WhatIsFasterInTritonIsTakenAndRemembered) {
  row_sums(16384, 8192);
  SaidTimes all(99);
  EXPECT_FALSE(chosen(all, options()).triton) << "none was faster";
  const std::vector<Trial>& trials = all.timed.at(0);
  const auto first = std::ranges::find(trials, 2u, &Trial::scratch_words);
  ASSERT_NE(first, trials.end());
  ASSERT_NE(first, trials.begin());
  EXPECT_EQ(std::tuple(first->block, first->shared_bytes, first->scalar_bytes, first->status),
            std::tuple(64u, 48u, 4u, false));
  EXPECT_EQ(trials.size(), backend.compiled + in_triton);

  for (const std::string& entry : cache.entries()) std::filesystem::remove(cache / entry);
  SaidTimes fast(static_cast<std::size_t>(first - trials.begin())), again(0);
  const codegen::Kernel k = chosen(fast, options());
  ASSERT_TRUE(k.triton);
  EXPECT_EQ(k.symbol, first->symbol);
  EXPECT_EQ(chosen(again, options()).symbol, first->symbol);
  EXPECT_TRUE(again.timed.empty() && has(said, "remembered"));
}

TEST_F(TwoLanguages, WithoutTritonTheOthersAreTimed) {
  row_sums(16384, 8192);
  SaidTimes timer(1);
  autotune::LaunchOptions given = options();
  given.compile_triton = [](auto) -> autotune::LaunchOptions::Kernels { throw Error("there is no Triton"); };
  EXPECT_FALSE(chosen(timer, given).triton);
  EXPECT_TRUE(has(said, "no kernel in Triton was timed: there is no Triton"));
  for (const Trial& t : timer.timed.at(0)) EXPECT_EQ(t.scratch_words, 0u);
}

// ---- Products

/// Says that the trial of number `fastest` takes half of the time of the others.
class SaidCallTimes : public autotune::CallTimer {
 public:
  explicit SaidCallTimes(std::size_t fastest, std::string identity = "GPU A, cuBLASLt 1")
      : fastest_(fastest), identity_(std::move(identity)) {}
  const std::string& identity() const override { return identity_; }
  std::vector<std::optional<double>> time(std::span<const autotune::CallTrial> trials) override {
    timed.emplace_back(trials.begin(), trials.end());
    std::vector<std::optional<double>> out(trials.size(), 1.0);
    if (fastest_ < out.size()) out[fastest_] = 0.5;
    return out;
  }
  std::vector<std::vector<autotune::CallTrial>> timed;

 private:
  std::size_t fastest_;
  std::string identity_;
};

struct Products : Autotune {
  ir::BufferView view(sym::Expr rows, sym::Expr columns) {
    const sym::Exprs sizes{rows, columns}, strides = sym::contiguous_strides(sizes);
    return {
        graph.add_buffer("", ir::BufferKind::Computed, {DType::BF16, graph.target().device, sizes, strides, true}).id,
        DType::BF16, sizes, strides, 0};
  }
  void product(sym::Expr m, std::int64_t n, std::int64_t k) {
    const ir::BufferView x = view(m, k), w = view(n, k), y = view(m, n);
    graph.add_operation({.node = ir::Extern{"linear", {{"n", n}, {"k", k}}, {x, w}, {y}}, .outs = {y.buffer}});
  }
  /// Number and device of each product's algorithm; -1: none.
  std::vector<std::pair<std::int64_t, std::string>> chosen() {
    std::vector<std::pair<std::int64_t, std::string>> out;
    for (const ir::Operation& op : graph.operations()) {
      const auto& attributes = std::get<ir::Extern>(op.node).attributes;
      if (attributes.contains("algorithm"))
        out.emplace_back(std::get<std::int64_t>(attributes.at("algorithm")),
                         std::get<std::string>(attributes.at("algorithm_for")));
      else
        out.emplace_back(-1, "");
    }
    return out;
  }
  std::string tune(autotune::CallTimer& timer) {
    return autotune::choose_algorithms(graph, timer, {.cache = cache.path()});
  }
};

/// Library or kernel: the kernel takes `milliseconds`, the library one.
struct OwnOrLibrary : Products {
  void SetUp() override { graph.set_target(backend.target()); }

  /// The calls that become kernels, with the parts of their sums. Of a product's forms this one takes so long, the
  /// others 1 ms.
  std::map<ir::OperationId, std::int64_t> parts(double milliseconds, std::size_t form = 0) {
    SaidTimes timer(form, milliseconds);
    const autotune::OwnProducts found =
        autotune::choose_own_products(graph, backend, timer, library, {.cache = cache.path()});
    timed = timer.timed.size();
    said = found.text;
    made = found.made;
    return found.parts;
  }
  std::set<ir::OperationId> kernels(double milliseconds, std::size_t form = 0) {
    std::set<ir::OperationId> ids;
    for (const auto& [id, count] : parts(milliseconds, form)) ids.insert(id);
    return ids;
  }
  /// The last product's values go through sigmoid.
  void sigmoid(sym::Expr m, std::int64_t n) {
    const ir::BufferView y = std::get<ir::Extern>(graph.operations().back().node).outputs[0], z = view(m, n);
    const ir::Scalar value =
        graph.pool().op(ir::ScalarOp::Sigmoid, graph.pool().load(y.buffer, DType::BF16, graph.ivars(2)));
    graph.add_operation({.node = ir::Pointwise{y.sizes, value}, .outs = {z.buffer}});
  }
  /// A loop that makes the first operand of `products` linear layers.
  ir::BufferId made_operand(std::int64_t m, std::int64_t n, std::int64_t k, int products) {
    const ir::BufferView x = view(m, k), h = view(m, k);
    const ir::Scalar value =
        graph.pool().op(ir::ScalarOp::Sigmoid, graph.pool().load(x.buffer, DType::BF16, graph.ivars(2)));
    graph.add_operation({.node = ir::Pointwise{h.sizes, value}, .outs = {h.buffer}});
    for (int p = 0; p < products; ++p) {
      const ir::BufferView w = view(n, k), y = view(m, n);
      graph.add_operation({.node = ir::Extern{"linear", {{"n", n}, {"k", k}}, {h, w}, {y}}, .outs = {y.buffer}});
    }
    return h.buffer;
  }
  SaidCallTimes library{99};
  std::size_t timed = 0;
  std::set<ir::BufferId> made;
};

TEST_F(OwnOrLibrary, TheKernelIsTakenWhereItIsFasterAndTheGraphStaysForThePass) {
  product(512, 768, 768);
  product(512, 768, 768);
  EXPECT_EQ(kernels(0.5), (std::set<ir::OperationId>{0, 1}));
  EXPECT_EQ(timed, 1u) << "equal calls are timed once";
  for (const ir::Operation& op : graph.operations()) EXPECT_EQ(std::get<ir::Extern>(op.node).op, "linear");
}

TEST_F(OwnOrLibrary, TheLibraryStaysWhereNothingIsGained) {
  product(512, 768, 768);
  EXPECT_TRUE(kernels(1.0).empty());
  EXPECT_NE(said.find("the library, 1.0000 ms; library 1.0000 and 0.0000 for what follows"), std::string::npos) << said;
}

TEST_F(OwnOrLibrary, APassBehindTheLibraryCounts) {
  product(65536, 4096, 768);
  sigmoid(65536, 4096);
  EXPECT_EQ(kernels(1.0), std::set<ir::OperationId>{0}) << said;
  EXPECT_EQ(graph.operations().size(), 2u) << "nothing is fused yet";
}

TEST_F(OwnOrLibrary, SumsAreSplitWhereThatIsFasterWithTheLoopThatAddsThemUp) {
  product(256, 256, 16384);
  const auto split = parts(0.5, 1);
  ASSERT_EQ(split.size(), 1u) << said;
  EXPECT_EQ(split.begin()->second, 32) << said;
  EXPECT_NE(said.find("the kernel in 32 parts"), std::string::npos) << said;
  EXPECT_EQ(parts(2.0, 1), split) << "not timed again";
  EXPECT_NE(said.find("the kernel in 32 parts, remembered"), std::string::npos) << said;
}

TEST_F(OwnOrLibrary, WhatIsFasterWholeIsNotSplit) {
  product(256, 256, 16384);
  EXPECT_EQ(parts(0.5, 0), (std::map<ir::OperationId, std::int64_t>{{0, 1}}));
}

TEST_F(OwnOrLibrary, TheLoopInFrontCounts) {
  const ir::BufferId h = made_operand(65536, 4096, 4096, 2);
  EXPECT_EQ(kernels(1.0, 1), (std::set<ir::OperationId>{1, 2})) << said;
  EXPECT_EQ(made, std::set<ir::BufferId>{h}) << said;
  EXPECT_EQ(kernels(1.0, 1).size(), 2u) << "remembered";
  EXPECT_EQ(timed, 0u);
  EXPECT_EQ(graph.operations().size(), 3u) << "nothing is fused yet";
}

TEST_F(OwnOrLibrary, AnOperandThatIsMadeSlowlyStaysInMemory) {
  made_operand(512, 8192, 4096, 2);
  EXPECT_TRUE(kernels(1.5, 1).empty()) << said;
  EXPECT_TRUE(made.empty());
  EXPECT_NE(said.find("in memory"), std::string::npos) << said;
}

TEST_F(OwnOrLibrary, WhatTheKernelCannotReadIsLeft) {
  product(512, 768, 100);
  EXPECT_TRUE(kernels(0.5).empty());
  EXPECT_EQ(timed, 0u);
}

TEST_F(OwnOrLibrary, AChoiceIsRemembered) {
  product(512, 768, 768);
  EXPECT_EQ(kernels(0.5).size(), 1u);
  EXPECT_EQ(kernels(2.0).size(), 1u) << "not timed again";
  EXPECT_EQ(timed, 0u);
  EXPECT_NE(said.find("the kernel, remembered"), std::string::npos) << said;
}

TEST_F(Products, TheFastestAlgorithmGoesIntoEachEqualCall) {
  product(512, 768, 768);
  product(512, 768, 768);
  product(512, 3072, 768);
  SaidCallTimes timer(3);
  tune(timer);
  EXPECT_EQ(timer.timed.size(), 2u) << "equal calls are timed once";
  ASSERT_EQ(timer.timed[0].size(), 8u);
  for (std::int64_t k = 0; k < 8; ++k)
    EXPECT_EQ(std::get<std::int64_t>(timer.timed[0][static_cast<std::size_t>(k)].attributes.at("algorithm")), k);
  EXPECT_EQ(chosen(), (std::vector<std::pair<std::int64_t, std::string>>(3, {3, "GPU A, cuBLASLt 1"})));
}

TEST_F(Products, TheHeuristicsFirstLeavesTheCallAsItIs) {
  product(512, 768, 768);
  SaidCallTimes timer(0);
  tune(timer);
  EXPECT_EQ(chosen().at(0).first, -1);
}

TEST_F(Products, AlgorithmsAreRememberedForOneDeviceAndLibrary) {
  product(512, 768, 768);
  SaidCallTimes first(3), other(5, "GPU B, cuBLASLt 1");
  tune(first);
  const std::string entry = (cache / cache.entries().at(0)).string();
  product(512, 768, 768);  // a new program with the same product; its first call names an algorithm already, which
                           // makes it another call
  SaidCallTimes again(1);
  EXPECT_TRUE(has(tune(again), "algorithm 3, remembered"));
  EXPECT_EQ(chosen().at(1).first, 3);
  product(512, 768, 768);
  tune(other);
  EXPECT_EQ(chosen().at(2), (std::pair<std::int64_t, std::string>{5, "GPU B, cuBLASLt 1"}));
  std::filesystem::resize_file(entry, 20);
  product(512, 768, 768);
  SaidCallTimes torn(2);
  tune(torn);
  EXPECT_EQ(chosen().at(3).first, 2) << "a torn entry is no answer";
}

TEST_F(Products, SizesWithoutAHintAreLeft) {
  product(env->add_size("s0", std::nullopt), 768, 768);
  SaidCallTimes timer(3);
  tune(timer);
  EXPECT_TRUE(timer.timed.empty());
  EXPECT_EQ(chosen().at(0).first, -1);
}

// ---- On a driver

struct CudaTimes : testing::Test {
  CudaTimes() {
    library =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/fake_cuda/libcuda.so.1")
            .string();
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    reinterpret_cast<void (*)()>(dlsym(handle, "coil_fake_cuda_reset"))();
    machine = reinterpret_cast<fake_cuda::Machine* (*)()>(dlsym(handle, "coil_fake_cuda"))();
  }
  Trial trial(const std::string& symbol, std::uint64_t bytes = 4000) const {
    return {symbol, {8, 1, 1}, 128, 0, {bytes, bytes}, {3, 1000}};
  }
  std::string library;
  fake_cuda::Machine* machine = nullptr;
};

TEST_F(CudaTimes, AreTheEventsOfEachTrial) {
  machine->milliseconds = {{"scale", 2}, {"guard", 0.5}};
  {
    autotune::CudaTimer timer(0, "sm_90", library);
    EXPECT_EQ(timer.identity(), "Fake GPU (sm_90), CUDA 13000");
    timer.load(std::vector<std::vector<std::byte>>{runtime::gpu_kernels()});
    Trial guard{"guard", {1, 1, 1}, 32, 0, {}, {0}};
    const auto times = timer.time(std::vector{trial("scale"), guard, trial("missing")});
    ASSERT_EQ(times.size(), 3u);
    EXPECT_NEAR(times[0].value(), 2, 1e-3);
    EXPECT_NEAR(times[1].value(), 0.5, 1e-3);
    EXPECT_FALSE(times[2]);
    EXPECT_GE(machine->count("cuLaunchKernel scale"), 4u);
  }
  EXPECT_EQ(machine->used[0], 0u);
  EXPECT_EQ(machine->live_events, 0u);
  EXPECT_EQ(machine->live_streams, 0u);
}

TEST_F(CudaTimes, AreTakenOnTheDeviceOfTheProgram) {
  autotune::CudaTimer timer(1, "sm_90", library);
  timer.load(std::vector<std::vector<std::byte>>{runtime::gpu_kernels()});
  timer.time(std::vector{trial("scale")});
  EXPECT_GE(machine->count("cuLaunchKernel scale on device 1"), 4u);
  EXPECT_EQ(machine->count("cuLaunchKernel scale on device 0"), 0u);
}

TEST_F(CudaTimes, AreNotTakenOfWhatTheDeviceHasNoRoomFor) {
  autotune::CudaTimer timer(0, "sm_90", library);
  timer.load(std::vector<std::vector<std::byte>>{runtime::gpu_kernels()});
  const auto times = timer.time(std::vector{trial("scale", std::uint64_t{1} << 40)});
  EXPECT_FALSE(times.at(0));
  EXPECT_EQ(machine->count("cuLaunchKernel"), 0u);
}

TEST_F(CudaTimes, NeedADeviceThatRunsTheKernels) {
  EXPECT_TRUE(has(error_of([&] { autotune::CudaTimer(0, "sm_100", library); }), "do not run on cuda:0 (Fake GPU)"));
  EXPECT_TRUE(has(error_of([&] { autotune::CudaTimer(7, "sm_90", library); }), "no device cuda:7"));
  machine->devices = 0;
  EXPECT_NE(error_of([&] { autotune::CudaTimer(0, "sm_90", library); }), "no error");
}

}  // namespace
}  // namespace coil
