#include "runtime/executor/executor.h"

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "runtime/device/output_pool.h"
#include "runtime/device/threads.h"
#include "runtime_plans.h"
#ifdef COIL_SANITIZED
#include <sanitizer/allocator_interface.h>
#endif

// Counts the allocations of the thread that asks.
static thread_local long allocations = 0;
#ifdef COIL_SANITIZED  // memory is the sanitizer's then
static const int counting_hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { ++allocations; }, [](const volatile void*) {});
#else
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace coil::runtime {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::vector<float> counting(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i) - 3;
  return v;
}

std::vector<float> times(std::vector<float> v, float by) {
  for (float& x : v) x *= by;
  return v;
}

TEST(Executor, RunsForEachSize) {
  Context context(Model::load(scaled_sum()));
  for (std::int64_t rows : {2, 8, 2, 1, 5}) {
    const std::vector<float> x = counting(static_cast<std::size_t>(rows) * 4);
    const Tensor in = tensor_of(x, {rows, 4});
    const RunResult result = context.run({{in}});
    ASSERT_EQ(result.outputs.size(), 1u);
    EXPECT_EQ(result.outputs[0].sizes, (Sizes{rows, 4}));
    EXPECT_EQ(result.outputs[0].strides, (Sizes{4, 1}));
    EXPECT_EQ(values_of(result.outputs[0]), times(x, 5));
  }
}

/// More of them than are kept bound, with failures and another number of threads in between.
TEST(Executor, SizesInAnyOrder) {
  StoredProgram program = scaled_sum();
  for (ShapeInstruction& in : program.plan.shape_program)
    if (in.op == ShapeOp::Constant && in.a == 8) {
      in.a = 40;
      break;
    }
  Context context(Model::load(std::move(program)));
  std::int64_t rows = 1;
  for (int call = 0; call < 400; ++call) {
    rows = call % 3 ? 1 + (rows * 7 + call) % 13 : 3 + call % 37;
    if (call == 200) set_threads(1);
    if (call % 17 == 0) {
      const Tensor beyond = Tensor::empty(DType::F32, {41, 4});
      EXPECT_NE(error_of([&] { context.run({{beyond}}); }).find("at most 8 rows"), std::string::npos);
    }
    const std::vector<float> x = counting(static_cast<std::size_t>(rows) * 4);
    const RunResult result = context.run({{tensor_of(x, {rows, 4})}});
    ASSERT_EQ(result.outputs[0].sizes, (Sizes{rows, 4})) << call;
    ASSERT_EQ(values_of(result.outputs[0]), times(x, 5)) << call;
  }
  set_threads(0);
}

TEST(Executor, EmptyExtentsLaunchNothing) {
  Context context(Model::load(scaled_sum()));
  const Tensor in = Tensor::empty(DType::F32, {0, 4});
  EXPECT_EQ(context.run({{in}}).outputs[0].sizes, (Sizes{0, 4}));
}

TEST(Executor, OutputsOfEarlierCallsStayAsTheyWere) {
  Context context(Model::load(scaled_sum()));
  const Tensor a = tensor_of(counting(8), {2, 4}), b = tensor_of(std::vector<float>(8, 1), {2, 4});
  const Tensor first = context.run({{a}}).outputs[0];
  const Tensor second = context.run({{b}}).outputs[0];
  EXPECT_EQ(values_of(first), times(counting(8), 5));
  EXPECT_EQ(values_of(second), std::vector<float>(8, 5));
}

TEST(Executor, OutputsOutliveTheModel) {
  Tensor y;
  {
    auto context = std::make_unique<Context>(Model::load(scaled_sum()));
    const Tensor in = tensor_of(counting(8), {2, 4});
    y = context->run({{in}}).outputs[0];
  }
  EXPECT_EQ(values_of(y), times(counting(8), 5));
}

TEST(Executor, ReusesTheMemoryOfOutputsThatWereLetGo) {
  Context context(Model::load(scaled_sum()));
  const Tensor in = tensor_of(counting(8), {2, 4});
  std::vector<Tensor> outputs;
  context.run_into({{in}}, outputs);
  const std::byte* first = outputs[0].bytes();
  context.run_into({{in}}, outputs);
  EXPECT_EQ(outputs[0].bytes(), first);
}

TEST(Executor, AllocatesNothingAfterTheFirstCall) {
  Context context(Model::load(scaled_sum()));
  const Tensor in = tensor_of(counting(8), {2, 4});
  std::vector<Tensor> outputs;
  const long unused = allocations;
  context.run_into({{in}}, outputs);
  const long before = allocations;
  EXPECT_GT(before, unused);
  for (int i = 0; i < 10; ++i) context.run_into(std::span(&in, 1), outputs);
  EXPECT_EQ(allocations, before);
}

TEST(Executor, ProgramsThatTakeTurnsAreRightInSharedArenas) {
  Context one(Model::load(scaled_sum(1 << 17))), other(Model::load(scaled_sum(1 << 17)));
  std::vector<Tensor> outputs;
  for (int turn = 0; turn < 3; ++turn)
    for (std::int64_t rows : {std::int64_t{1} << 16, std::int64_t{1} << 17, std::int64_t{3}})
      for (Context* context : {&one, &other}) {
        const std::vector<float> x = counting(static_cast<std::size_t>(rows) * 4);
        const Tensor in = tensor_of(x, {rows, 4});
        for (int call = 0; call < 2; ++call) context->run_into({{in}}, outputs);
        const float* y = outputs[0].data<float>();
        for (std::size_t i : {std::size_t{0}, x.size() / 2, x.size() - 1}) ASSERT_EQ(y[i], 5 * x[i]);
      }
}

TEST(Executor, TakesInputsInAnyLayoutAndOffset) {
  Context context(Model::load(scaled_sum()));
  Tensor in = tensor_of(counting(4 * 3 + 1), {13});
  in.sizes = {3, 4};
  in.strides = {1, 3};
  in.offset = 1;
  EXPECT_EQ(values_of(context.run({{in}}).outputs[0]), times(values_of(in), 5));
}

TEST(Executor, InputsAlikeMayLieAnywhere) {
  Context context(Model::load(scaled_sum()));
  std::vector<Tensor> outputs;
  Tensor in = tensor_of(counting(12), {3, 4});
  context.run_into({{in}}, outputs);
  for (float by : {2.0f, 3.0f}) {
    const Tensor other = tensor_of(times(counting(12), by), {3, 4});
    context.run_alike_into({{other}}, outputs);
    EXPECT_EQ(values_of(outputs[0]), times(counting(12), 5 * by));
  }
  // Nor need they be aligned: such a one is copied.
  std::vector<std::byte> bytes(12 * sizeof(float) + 2);
  std::memcpy(bytes.data() + 2, in.bytes(), 12 * sizeof(float));
  Tensor odd = in;
  odd.storage = {std::shared_ptr<std::byte>(std::shared_ptr<void>(), bytes.data() + 2), 12 * sizeof(float)};
  context.run_alike_into({{odd}}, outputs);
  EXPECT_EQ(values_of(outputs[0]), times(counting(12), 5));
  context.run_alike_into({{in}}, outputs);
  EXPECT_EQ(values_of(outputs[0]), times(counting(12), 5));
}

TEST(Executor, InputsAlikeInAnyLayout) {
  Context context(Model::load(scaled_sum()));
  std::vector<Tensor> outputs;
  Tensor in = tensor_of(counting(4 * 3 + 1), {13});
  in.sizes = {3, 4};
  in.strides = {1, 3};
  in.offset = 1;
  context.run_into({{in}}, outputs);
  Tensor other = in;
  other.storage = tensor_of(times(counting(13), 2), {13}).storage;
  context.run_alike_into({{other}}, outputs);
  EXPECT_EQ(values_of(outputs[0]), times(values_of(other), 5));
}

TEST(Executor, NamesTheInputAndTheRule) {
  Context context(Model::load(scaled_sum()));
  auto with = [&](const Tensor& t) { return error_of([&] { context.run({{t}}); }); };
  EXPECT_EQ(error_of([&] { context.run({}); }), "the program takes 1 inputs (x), but 0 were given");
  EXPECT_EQ(with(Tensor::empty(DType::I64, {2, 4})), "input 'x' is int64, but the program takes float32");
  EXPECT_EQ(with(Tensor::empty(DType::F32, {4})), "input 'x' has 1 dimensions (f32[4]), but the program takes 2");
  EXPECT_EQ(with(Tensor::empty(DType::F32, {2, 5})),
            "input 'x' has size 5 in dimension 1, but the program takes 4 (f32[2, 5] was given)");
  EXPECT_EQ(with(Tensor::empty(DType::F32, {9, 4})), "input 'x' must have at most 8 rows (given: x f32[9, 4])");
  Tensor shallow = Tensor::empty(DType::F32, {1, 4});
  shallow.sizes = {8, 4};
  EXPECT_EQ(with(shallow), "input 'x' reaches outside of its memory");
}

/// a = x * 2, then b = y * 3; with `writes`, b is y itself.
StoredProgram two_scales(bool writes) {
  PlanBuilder b;
  const Slot four = b.constant(4), one = b.constant(1), zero = b.constant(0), bytes = b.constant(16),
             two = b.constant(2), three = b.constant(3);
  for (const char* name : {"x", "y"}) b.plan.inputs.push_back({name, DType::F32, {four}, {one}});
  b.plan.inputs[1].mutated = writes;
  const BufferId x = b.buffer({.kind = BufferKind::Input, .index = 0, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Input, .index = 1, .name = "y"});
  const BufferId first = b.buffer({.kind = BufferKind::Output, .name = "a", .bytes = bytes}),
                 second = writes ? y : b.buffer({.kind = BufferKind::Output, .name = "b", .bytes = bytes});
  const std::uint32_t scale = b.kernel("scale");
  b.plan.steps.push_back(KernelCall{scale, {x, first}, {two}, four, four});
  b.plan.steps.push_back(KernelCall{scale, {y, second}, {three}, four, four});
  b.output("a", {first, DType::F32, {four}, {one}, zero});
  b.output("b", {second, DType::F32, {four}, {one}, zero});
  static const std::vector<std::byte> kernels = compile_kernels(kTestKernels);
  return {std::move(b.plan), {}, {kernels}, kTestKernels};
}

/// What a run asks for and gives back, in order, and its results.
std::pair<std::string, std::vector<std::vector<float>>> memory_over_time(StoredProgram program) {
  Context context(Model::load(std::move(program)));
  std::string log;
  const auto pool = OutputPool::make();
  std::vector<Tensor> inputs{tensor_of({1, 2, 3, 4}, {4}), tensor_of({5, 6, 7, 8}, {4})};
  context.set_output_allocator([&](std::size_t bytes) {
    log += "+";
    return pool->allocate(bytes);
  });
  context.set_inputs_done([&](std::span<const std::uint32_t> done) {
    for (std::uint32_t i : done) log += inputs[i].data<float>()[0] > 4 ? "y" : "x";
  });
  std::vector<std::vector<float>> values;
  for (const Tensor& t : context.run(inputs).outputs) values.push_back(values_of(t));
  return {log, values};
}

TEST(Executor, OutputsGetMemoryWithTheStepThatWritesThemAndInputsGoAfterTheLastThatReadsThem) {
  const auto [log, values] = memory_over_time(two_scales(false));
  EXPECT_EQ(log, "+x+y");
  EXPECT_EQ(values, (std::vector<std::vector<float>>{{2, 4, 6, 8}, {15, 18, 21, 24}}));
}

TEST(Executor, InputsThatAreWrittenToOrReturnedStay) {
  const auto [log, values] = memory_over_time(two_scales(true));
  EXPECT_EQ(log, "+x");
  EXPECT_EQ(values, (std::vector<std::vector<float>>{{2, 4, 6, 8}, {15, 18, 21, 24}}));
}

TEST(Executor, SizesThatTakeTurnsHaveOrdersOfTheirOwn) {
  // a = x * 2 where x has elements, b = y * 3, a = y * 2: which output comes first follows from the size of x.
  PlanBuilder b;
  const Slot n = b.add(ShapeOp::InputSize, 0, 0), four = b.constant(4), one = b.constant(1), zero = b.constant(0),
             bytes = b.constant(16), two = b.constant(2), three = b.constant(3);
  b.plan.inputs.push_back({"x", DType::F32, {n}, {one}});
  b.plan.inputs.push_back({"y", DType::F32, {four}, {one}});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .index = 0, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Input, .index = 1, .name = "y"});
  const BufferId first = b.buffer({.kind = BufferKind::Output, .name = "a", .bytes = bytes}),
                 second = b.buffer({.kind = BufferKind::Output, .name = "b", .bytes = bytes});
  const std::uint32_t scale = b.kernel("scale");
  b.plan.steps.push_back(KernelCall{scale, {x, first}, {two}, n, four});
  b.plan.steps.push_back(KernelCall{scale, {y, second}, {three}, four, four});
  b.plan.steps.push_back(KernelCall{scale, {y, first}, {two}, four, four});
  b.output("a", {first, DType::F32, {four}, {one}, zero});
  b.output("b", {second, DType::F32, {four}, {one}, zero});
  Context context(Model::load({std::move(b.plan), {}, {compile_kernels(kTestKernels)}, kTestKernels}));
  const auto pool = OutputPool::make();
  std::string log;
  context.set_output_allocator([&](std::size_t size) {
    log += "+";
    return pool->allocate(size);
  });
  context.set_inputs_done([&](std::span<const std::uint32_t> done) {
    for (std::uint32_t i : done) log += "xy"[i];
  });
  const Tensor full = tensor_of({1, 2, 3, 4}, {4}), empty = Tensor::empty(DType::F32, {0}),
               other = tensor_of({5, 6, 7, 8}, {4});
  std::vector<Tensor> held;
  for (const Tensor& given : {full, empty, full, empty, full}) {
    log.clear();
    const RunResult result = context.run({{given, other}});
    EXPECT_EQ(log, given.numel() ? "+x+y" : "++y");
    EXPECT_EQ(values_of(result.outputs[0]), (std::vector<float>{10, 12, 14, 16}));
    EXPECT_EQ(values_of(result.outputs[1]), (std::vector<float>{15, 18, 21, 24}));
    held.insert(held.end(), result.outputs.begin(), result.outputs.end());
  }
}

TEST(Executor, ARunThatFindsNoMemoryForALaterOutputKeepsNone) {
  Context context(Model::load(two_scales(false)));
  const auto pool = OutputPool::make();
  std::weak_ptr<std::byte> first;
  context.set_output_allocator([&](std::size_t bytes) {
    if (first.lock()) fail("no memory");
    Storage s = pool->allocate(bytes);
    first = s.data;
    return s;
  });
  const std::vector<Tensor> inputs{tensor_of({1, 2, 3, 4}, {4}), tensor_of({5, 6, 7, 8}, {4})};
  EXPECT_EQ(error_of([&] { context.run(inputs); }), "no memory");
  EXPECT_TRUE(first.expired());
  context.set_output_allocator({});
  EXPECT_EQ(values_of(context.run(inputs).outputs[1]), (std::vector<float>{15, 18, 21, 24}));
}

TEST(Executor, WorksAgainAfterAnError) {
  Context context(Model::load(scaled_sum()));
  const Tensor good = tensor_of(counting(8), {2, 4}), bad = Tensor::empty(DType::F32, {9, 4});
  context.run({{good}});
  EXPECT_THROW(context.run({{bad}}), Error);
  EXPECT_EQ(values_of(context.run({{good}}).outputs[0]), times(counting(8), 5));
}

TEST(Executor, ContextsOfOneModelRunAtOnce) {
  auto model = Model::load(scaled_sum());
  auto work = [&](float fill) {
    Context context(model);
    for (int i = 0; i < 200; ++i) {
      const Tensor in = tensor_of(std::vector<float>(8, fill), {2, 4});
      if (values_of(context.run({{in}}).outputs[0]) != std::vector<float>(8, 5 * fill)) return false;
    }
    return true;
  };
  bool a = false, b = false;
  std::thread one([&] { a = work(1); }), two([&] { b = work(2); });
  one.join();
  two.join();
  EXPECT_TRUE(a && b);
}

/// A counter: state += x, returned as an alias; x *= 2 in place.
StoredProgram counter() {
  PlanBuilder b;
  const Slot four = b.constant(4), one = b.constant(1), zero = b.constant(0), bytes = b.constant(16),
             two = b.constant(2);
  b.plan.inputs.push_back({"x", DType::F32, {four}, {one}, true});
  b.plan.constants.push_back({"total", DType::F32, {4}, {1}, 16, 0, true});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId total = b.buffer({.kind = BufferKind::Constant, .name = "total"});
  const BufferId t = b.buffer({.kind = BufferKind::Temporary, .name = "t", .bytes = bytes, .arena_offset = 0});
  b.plan.static_arena_bytes = 64;
  b.plan.steps.push_back(KernelCall{b.kernel("add"), {total, x, total}, {}, four, one});
  b.plan.steps.push_back(KernelCall{b.kernel("scale"), {x, t}, {two}, four, one});
  b.plan.steps.push_back(KernelCall{1, {t, x}, {one}, four, one});
  b.output("total", {total, DType::F32, {four}, {one}, zero});
  b.output("x", {x, DType::F32, {four}, {one}, zero});
  b.plan.outputs.push_back({"n", Output::Kind::Int, {}, four});
  b.plan.outputs.push_back({"none", Output::Kind::None});
  return {std::move(b.plan), {Tensor::empty(DType::F32, {4})}, {compile_kernels(kTestKernels)}, ""};
}

TEST(Executor, StatesBelongToTheContextAndPersist) {
  auto model = Model::load(counter());
  Context one(model), two(model);
  const Tensor in = tensor_of({1, 1, 1, 1}, {4});
  const RunResult first = one.run({{in}});
  EXPECT_EQ(values_of(first.outputs[0]), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(values_of(in), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_EQ(first.outputs[1].bytes(), in.bytes());
  EXPECT_EQ(*first.outputs[2].data<std::int64_t>(), 4);
  EXPECT_FALSE(first.outputs[3].storage.data);
  EXPECT_EQ(values_of(one.run({{in}}).outputs[0]), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values_of(two.run({{in}}).outputs[0]), (std::vector<float>{4, 4, 4, 4}));
}

TEST(Executor, WritesBackThroughForeignStrides) {
  Context context(Model::load(counter()));
  Tensor in = tensor_of({1, 9, 2, 9, 3, 9, 4, 9}, {8});
  in.sizes = {4};
  in.strides = {2};
  context.run({{in}});
  EXPECT_EQ(values_of(in), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(in.data<float>()[1], 9);
}

TEST(Executor, InputsAlikeThatAreWrittenTo) {
  Context context(Model::load(counter()));
  std::vector<Tensor> outputs;
  for (bool alike : {false, true, true}) {
    Tensor in = tensor_of({1, 9, 2, 9, 3, 9, 4, 9}, {8});
    in.sizes = {4};
    in.strides = {2};
    alike ? context.run_alike_into({{in}}, outputs) : context.run_into({{in}}, outputs);
    EXPECT_EQ(values_of(in).size(), 4u);
    EXPECT_EQ(in.data<float>()[1], 9);
    EXPECT_NE(in.data<float>()[0], 1);
  }
}

TEST(Executor, RefusesBrokenPlans) {
  const std::string broken = "the plan is broken";
  auto load = [](const std::function<void(Plan&)>& change) {
    StoredProgram p = scaled_sum();
    change(p.plan);
    return error_of([&] { Context context(Model::load(std::move(p))); });
  };
  EXPECT_NE(load([](Plan& p) { p.shape_program[4].a = 7; }).find(broken), std::string::npos);
  EXPECT_NE(load([](Plan& p) { p.buffers[0].index = 3; }).find(broken), std::string::npos);
  EXPECT_NE(load([](Plan& p) { p.buffers[1].shares = 1; }).find(broken), std::string::npos);
  EXPECT_NE(load([](Plan& p) { std::get<KernelCall>(p.steps[0]).buffers[1] = 99; }).find(broken), std::string::npos);
  EXPECT_NE(load([](Plan& p) { p.outputs[0].view.buffer = 1; }).find(broken), std::string::npos);
  EXPECT_EQ(load([](Plan& p) { p.kernels[0].symbol = "gone"; }),
            "kernel 'gone', a test's kernel, is in none of the program's kernel libraries that cpu can load");
  EXPECT_TRUE(load([](Plan& p) {
                p.isa = "avx9000";
              }).starts_with("the kernels need the instruction set 'avx9000', which this machine ("));
  EXPECT_EQ(load([](Plan& p) { p.steps.push_back(ExternCall{"levitate", {}, {}, {}}); }),
            "this runtime has no library operation 'levitate' on cpu");
}

TEST(OutputPool, KeepsBlocksAndAlignsThem) {
  auto pool = OutputPool::make(std::make_shared<PageHeap>(1u << 30));
  const std::byte* first = pool->allocate(5u << 20).data.get();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 4096, 0u);
  EXPECT_EQ(pool->allocate(7u << 20).data.get(), first);
  const std::byte* kept = pool->allocate(1000).data.get();
  EXPECT_EQ(pool->allocate(1020).data.get(), kept);
  const Storage small = pool->allocate(1), empty = pool->allocate(0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data.get()) % 64, 0u);
  EXPECT_TRUE(empty.data);
}

TEST(OutputPool, CountsWhatIsInUse) {
  auto pool = OutputPool::make(std::make_shared<PageHeap>(1u << 30));
  const Storage before = pool->allocate(300'000);
  pool->begin_measuring();
  { const Storage large = pool->allocate(1'000'000), small = pool->allocate(10); }
  const Storage later = pool->allocate(500'000);
  EXPECT_EQ(pool->measured_bytes(), 1'000'010u);
}

TEST(OutputPool, BlocksOutliveTheirPool) {
  for (std::size_t bytes : {std::size_t{1000}, std::size_t{1'000'000}}) {
    Storage s = OutputPool::make()->allocate(bytes);
    std::memset(s.data.get(), 1, bytes);
  }
}

TEST(OutputPool, SaysWhenMemoryIsOut) {
  EXPECT_EQ(error_of([] { OutputPool::make()->allocate(SIZE_MAX / 4); }),
            fmt::format("out of memory: cannot allocate {} bytes", SIZE_MAX / 4));
  EXPECT_EQ(error_of([] { OutputPool::make()->allocate(SIZE_MAX - 10); }),
            fmt::format("out of memory: cannot allocate {} bytes", SIZE_MAX - 10));
}

}  // namespace
}  // namespace coil::runtime
