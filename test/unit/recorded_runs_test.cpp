// Recorded runs on a device that carries steps out in any order that their lanes allow: the CPU, with its work put off
// and shuffled.
#include "runtime/executor/recorded_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "compiler/pipeline.h"
#include "frontend/graph_builder.h"

namespace coil {
namespace {

using ops::Values;
using runtime::StepOrder;

class Shuffled : public runtime::RecordedWork {
 public:
  struct Step {
    StepOrder order;
    std::vector<std::function<void()>> work;
  };
  std::vector<Step> steps;
};

/// What was queued between begin_recording and end_recording is done by run_recorded: each time in another order.
class ShufflingQueue : public runtime::Queue {
 public:
  ShufflingQueue(std::unique_ptr<Queue> inner, std::mt19937_64& random, std::size_t& overtaken, std::size_t& replays)
      : inner_(std::move(inner)), random_(random), overtaken_(overtaken), replays_(replays) {}
  Device device() const override { return inner_->device(); }
  void begin() override { inner_->begin(); }
  void end() noexcept override { inner_->end(); }
  Storage allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  std::span<std::int64_t> shared_words(std::size_t count) override { return inner_->shared_words(count); }
  void copy(const Tensor& to, const Tensor& from) override { inner_->copy(to, from); }
  void launch(const runtime::Launch& l, void* const* words) override {
    if (!recorded_) return inner_->launch(l, words);
    std::vector<void*> table(words, words + l.words + l.word_count);  // as it is now: replays have these pointers
    recorded_->steps.back().work.push_back([this, l, table = std::move(table)] { inner_->launch(l, table.data()); });
  }
  std::unique_ptr<runtime::LibraryOp> make_op(const std::string& op, const runtime::Attributes& a) override {
    return std::make_unique<Op>(*this, inner_->make_op(op, a));
  }
  bool begin_recording() override {
    recorded_ = std::make_unique<Shuffled>();
    return true;
  }
  std::unique_ptr<runtime::RecordedWork> end_recording() override { return std::move(recorded_); }
  std::uint32_t lanes() const override { return 4; }
  void begin_step(const StepOrder& order) override { recorded_->steps.push_back({order, {}}); }
  void run_recorded(const runtime::RecordedWork& work) override {
    ++replays_;
    const auto& steps = static_cast<const Shuffled&>(work).steps;
    std::vector<bool> done(steps.size(), false);
    for (std::size_t count = 0; count < steps.size(); ++count) {
      std::vector<std::size_t> ready;
      for (std::size_t s = 0; s < steps.size(); ++s)
        if (!done[s] && may_run(steps, done, s)) ready.push_back(s);
      const std::size_t next = ready.at(random_() % ready.size());
      overtaken_ += next != ready.front();
      for (const auto& f : steps[next].work) f();
      done[next] = true;
    }
  }

 private:
  static bool may_run(const std::vector<Shuffled::Step>& steps, const std::vector<bool>& done, std::size_t s) {
    for (std::size_t d = 0; d < s; ++d)
      if (!done[d] && steps[d].order.lane == steps[s].order.lane) return false;
    return std::ranges::all_of(steps[s].order.after, [&](std::uint32_t d) { return done[d]; });
  }

  class Op : public runtime::LibraryOp {
   public:
    Op(ShufflingQueue& queue, std::unique_ptr<LibraryOp> inner) : queue_(queue), inner_(std::move(inner)) {}
    void prepare(std::span<const runtime::BoundView> in, std::span<const runtime::BoundView> out) override {
      inner_->prepare(in, out);
    }
    std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
    void run(std::span<const void* const> in, std::span<void* const> out, void* scratch) override {
      if (!queue_.recorded_) return inner_->run(in, out, scratch);
      queue_.recorded_->steps.back().work.push_back([this, given = std::vector(in.begin(), in.end()),
                                                     made = std::vector(out.begin(), out.end()),
                                                     scratch] { inner_->run(given, made, scratch); });
    }

   private:
    ShufflingQueue& queue_;
    std::unique_ptr<LibraryOp> inner_;
  };

  std::unique_ptr<Queue> inner_;
  std::mt19937_64& random_;
  std::size_t &overtaken_, &replays_;
  std::unique_ptr<Shuffled> recorded_;
};

class ShufflingDevice : public runtime::DeviceRuntime {
 public:
  Device device() const override { return inner_->device(); }
  std::unique_ptr<runtime::LoadedKernels> load(const std::string& isa,
                                               std::span<const std::vector<std::byte>> libraries) override {
    return inner_->load(isa, libraries);
  }
  std::unique_ptr<runtime::Queue> make_queue() override {
    return std::make_unique<ShufflingQueue>(inner_->make_queue(), random_, overtaken, replays);
  }
  std::size_t overtaken = 0;  ///< steps that ran although an earlier one was ready
  std::size_t replays = 0;

 protected:
  std::shared_ptr<runtime::DeviceRuntime> inner_ = runtime::open_cpu();
  std::mt19937_64 random_{20261122};
};

Tensor random_tensor(Sizes sizes, std::mt19937_64& random) {
  Tensor t = Tensor::empty(DType::F32, std::move(sizes));
  std::uniform_real_distribution<float> number(-1, 1);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = number(random);
  return t;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.sizes == b.sizes &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype)) == 0;
}

/// Two layers of what attention looks like: three products of one input, products of their results, and sums.
runtime::StoredProgram layers() {
  frontend::GraphBuilder b;
  std::mt19937_64 random(7);
  fx::Node* x = b.input("x", DType::F32, {48, 32});
  std::vector<fx::Node*> results;
  for (int layer = 0; layer < 2; ++layer) {
    auto product = [&](fx::Node* in, const char* name) {
      return b.op("aten.mm.default",
                  {in, b.constant(fmt::format("{}{}", name, layer), random_tensor({32, 32}, random))});
    };
    fx::Node *q = product(x, "q"), *k = product(x, "k"), *v = product(x, "v");
    fx::Node* scores =
        b.op("aten._softmax.default", {b.op("aten.mm.default", {q, b.op("aten.t.default", {k})}), -1, false});
    fx::Node* mixed = b.op("aten.mm.default", {scores, b.op("aten.tanh.default", {v})});
    results.push_back(b.op("aten.sum.dim_IntList", {q, Values{0}}));
    x = b.op("aten.add.Tensor", {x, product(mixed, "o")});
  }
  results.push_back(x);
  frontend::ExportedProgram program;
  program.module = b.build(std::move(results));
  CompileOptions options;
  // The first so that kernels say what they write to.
  options.settings = {{"assert_lifetimes", "true"}, {"keep_nan", "false"}};
  Compiled compiled = compile_program(std::move(program), options);
  compiled.program->plan.check_lifetimes = false;
  return *compiled.program;
}

TEST(RecordedRuns, AnyOrderThatTheLanesAllowGivesTheSameValues) {
  const runtime::StoredProgram program = layers();
  auto device = std::make_shared<ShufflingDevice>();
  runtime::Context plain(runtime::Model::load(program)), recorded(runtime::Model::load(program, device));
  recorded.set_recording(true);
  std::mt19937_64 random(11);
  std::vector<Tensor> given{random_tensor({48, 32}, random), random_tensor({48, 32}, random)}, made;
  for (int call = 0; call < 60; ++call) {
    const Tensor& x = given[static_cast<std::size_t>(call) % 3 == 2];
    const auto wanted = plain.run({&x, 1}).outputs;
    recorded.run_into({&x, 1}, made);
    ASSERT_EQ(made.size(), wanted.size());
    for (std::size_t k = 0; k < made.size(); ++k)
      ASSERT_TRUE(equal(made[k], wanted[k])) << "call " << call << ", result " << k;
  }
  EXPECT_GT(device->overtaken, 100u);
}

/// A layer of a recurrent network as a loop over its steps, or a number that the run reads before it goes on.
runtime::StoredProgram recurrence(bool reads) {
  frontend::GraphBuilder b;
  std::mt19937_64 random(7);
  fx::Node* x = b.input("x", DType::F32, {6, 3, 12});
  fx::Node* layer = b.op("coil.recurrent_layer.default",
                         {x, b.constant("h", random_tensor({3, 4}, random)),
                          b.constant("w", random_tensor({12, 4}, random)), ops::None{}, std::string("gru"), false});
  std::vector<fx::Node*> results{b.item(layer, 0), b.item(layer, 1)};
  if (reads) results.push_back(b.op("aten.nonzero.default", {b.op("aten.gt.Scalar", {x, 0.0})}));
  frontend::ExportedProgram program;
  program.module = b.build(std::move(results));
  CompileOptions options;
  options.settings = {{"cuda.emulate", "true"}};
  return *compile_program(std::move(program), options).program;
}

TEST(RecordedRuns, LoopsAreRecordedTurnByTurnAndPartsAroundANumberThatTheRunReads) {
  for (const auto& [reads, told] : {std::pair{false, true}, {true, true}, {false, false}, {true, false}}) {
    runtime::StoredProgram program = recurrence(reads);
    ASSERT_EQ(program.plan.parts.size(), reads ? 2u : 1u);
    if (!told) program.plan.parts.clear();  // as plans of older versions are
    auto device = std::make_shared<ShufflingDevice>();
    runtime::Context plain(runtime::Model::load(program)), recorded(runtime::Model::load(program, device));
    recorded.set_recording(true);
    std::mt19937_64 random(11);
    Tensor x = Tensor::empty(DType::F32, {6, 3, 12});
    std::vector<Tensor> made;
    for (int call = 0; call < 10; ++call) {
      const Tensor fresh = random_tensor({6, 3, 12}, random);
      std::memcpy(x.bytes(), fresh.bytes(), fresh.storage.bytes);
      const auto wanted = plain.run({&x, 1}).outputs;
      recorded.run_into({&x, 1}, made);
      ASSERT_EQ(made.size(), wanted.size());
      for (std::size_t k = 0; k < made.size(); ++k)
        ASSERT_TRUE(equal(made[k], wanted[k])) << "call " << call << ", result " << k;
    }
    EXPECT_GE(device->replays, 8u);  // of the whole, or of what lies before and after the number
  }
}

/// Of a device whose recordings take no time.
class SilentDevice : public ShufflingDevice {
 public:
  std::unique_ptr<runtime::Queue> make_queue() override {
    struct Silent : ShufflingQueue {
      using ShufflingQueue::ShufflingQueue;
      void run_recorded(const runtime::RecordedWork&) override {}
    };
    return std::make_unique<Silent>(inner_->make_queue(), random_, overtaken, replays);
  }
};

/// The least seconds of a call of a chain of so many products, recorded.
double seconds_of_chain(int products) {
  frontend::GraphBuilder b;
  std::mt19937_64 random(7);
  fx::Node* x = b.input("x", DType::F32, {4, 4});
  fx::Node* w = b.input("w", DType::F32, {4, 4});
  fx::Node* y = x;
  for (int i = 0; i < products; ++i) y = b.op("aten.mm.default", {y, i % 2 ? x : w});
  frontend::ExportedProgram program;
  program.module = b.build({y});
  CompileOptions options;
  options.settings = {{"cuda.emulate", "true"}};
  const runtime::StoredProgram compiled = *compile_program(std::move(program), options).program;
  EXPECT_EQ(compiled.plan.parts.size(), 1u);
  runtime::Context context(runtime::Model::load(compiled, std::make_shared<SilentDevice>()));
  context.set_recording(true);
  const std::vector<Tensor> given{random_tensor({4, 4}, random), random_tensor({4, 4}, random)};
  std::vector<Tensor> made;
  double least = 1;
  for (int call = 0; call < 300; ++call) {
    const auto start = std::chrono::steady_clock::now();
    context.run_into(given, made);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

TEST(RecordedRuns, ACallOfAPartCostsTheHostNoMoreForMoreSteps) {
  const double few = seconds_of_chain(4), many = seconds_of_chain(1000);
  EXPECT_LT(many, 4 * few + 2e-6) << few << " s for 4 steps, " << many << " s for 1000";
}

TEST(RecordedRuns, PartsOfADamagedPlanAreRefused) {
  using runtime::Part;
  const runtime::StoredProgram good = recurrence(true);
  const auto steps = static_cast<std::uint32_t>(good.plan.steps.size());
  const Part first = good.plan.parts.at(0);
  const auto refused = [&](std::vector<Part> parts) {
    runtime::StoredProgram program = good;
    program.plan.parts = std::move(parts);
    try {
      runtime::Model::load(std::move(program));
      return false;
    } catch (const Error& e) {
      return std::string_view(e.what()).find("a part refers to something that is not there") != std::string::npos;
    }
  };
  EXPECT_FALSE(refused({first}));
  EXPECT_TRUE(refused({first, first})) << "two parts meet";
  EXPECT_TRUE(refused({{0, steps + 1, {}, {}, {}}}));
  EXPECT_TRUE(refused({{0, steps, {}, {}, {}}})) << "the host reads a number in it";
  EXPECT_TRUE(refused({{first.first, first.first, {}, {}, {}}}));
  EXPECT_TRUE(refused({{first.first, first.end, {9999}, {}, {}}}));
  EXPECT_TRUE(refused({{first.first, first.end, {}, {}, {9999}}}));
}

}  // namespace
}  // namespace coil
