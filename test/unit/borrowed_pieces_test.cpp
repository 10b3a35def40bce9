// Runs on memory of the caller's allocator, with temporaries in pieces (runtime/plan/arena_pieces.h).
#include "error_of.h"
#include "fake_gpu.h"
#include "support/out_of_memory.h"

namespace coil::runtime {
namespace {

constexpr std::int64_t kElements = 40'000;
constexpr std::size_t kBytes = 4 * kElements;

/// t0 = 2x, t1 = 3x, t2 = t0 + t1, and four outputs, each made of the one before: 10x, 20x, 40x, 80x. With `writes` the
/// input is written to at the end. At most three temporaries are live at once, before there is any output.
StoredProgram narrowing(bool writes) {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  b.plan.inputs[0].mutated = writes;
  const auto temporary = [&](const char* name, std::uint32_t first, std::uint32_t last) {
    return b.buffer({.kind = BufferKind::Temporary, .name = name, .bytes = b.bytes, .first = first, .last = last});
  };
  const BufferId t0 = temporary("t0", 0, 2), t1 = temporary("t1", 1, 2), t2 = temporary("t2", 2, 3);
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}), b.launch(b.scale, {x, t1}, {three}),
                  b.launch(b.add, {t0, t1, t2}, {})};
  BufferId from = t2;
  for (const char* name : {"y0", "y1", "y2", "y3"}) {
    const BufferId y = b.buffer({.kind = BufferKind::Output, .name = name, .bytes = b.bytes});
    b.plan.steps.push_back(b.launch(b.scale, {from, y}, {two}));
    b.output(name, {y, DType::F32, {b.elements}, {b.one}, b.zero});
    from = y;
  }
  if (writes) b.plan.steps.push_back(b.launch(b.scale, {from, x}, {two}));
  return b.program();
}

/// t0 = 2x, t1 = 3x, and in three turns t2 = t0 times the turn's number, t1 += t2, which makes 9x; four outputs, each
/// made of the one before: 18x, 36x, 72x, 144x.
StoredProgram in_turns() {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3), zero = b.zero, turn = b.PlanBuilder::add(ShapeOp::RunTime, 0);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const auto temporary = [&](const char* name, std::uint32_t first, std::uint32_t last) {
    return b.buffer({.kind = BufferKind::Temporary, .name = name, .bytes = b.bytes, .first = first, .last = last});
  };
  const BufferId t0 = temporary("t0", 0, 5), t1 = temporary("t1", 1, 6), t2 = temporary("t2", 3, 4);
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}),
                  b.launch(b.scale, {x, t1}, {three}),
                  Control{Control::Kind::Loop, three, turn, 6},
                  b.launch(b.scale, {t0, t2}, {turn}),
                  b.launch(b.add, {t2, t1, t1}, {}),
                  Control{Control::Kind::EndLoop, zero, zero, 2}};
  BufferId from = t1;
  for (const char* name : {"y0", "y1", "y2", "y3"}) {
    const BufferId y = b.buffer({.kind = BufferKind::Output, .name = name, .bytes = b.bytes});
    b.plan.steps.push_back(b.launch(b.scale, {from, y}, {two}));
    b.output(name, {y, DType::F32, {b.elements}, {b.one}, b.zero});
    from = y;
  }
  return b.program();
}

struct BorrowedPieces : FakeCuda {
  /// The context's memory comes from an allocator that counts, and has no more than `limit`.
  void lend(Context& context) {
    context.borrow_memory([this](std::size_t bytes) {
      if (bytes + *live > limit) fail_out_of_memory("no memory");
      const QueueScope scope(*queue);
      const Storage block = queue->allocate(bytes);
      *live += bytes;
      most = std::max(most, *live);
      Storage lent = block;
      lent.data =
          std::shared_ptr<std::byte>(block.data.get(), [live = live, bytes, block](std::byte*) { *live -= bytes; });
      return lent;
    });
  }

  void check_values(Context& context, const std::vector<Tensor>& outputs, float first = 10) {
    for (std::size_t k = 0; k < 4; ++k)
      EXPECT_EQ(values_of(context.to_host(outputs.at(k))),
                times(counting(kElements), first * static_cast<float>(1 << k)));
  }

  std::shared_ptr<Queue> queue = open()->make_queue();
  std::shared_ptr<std::size_t> live = std::make_shared<std::size_t>(0);
  std::size_t most = 0, limit = SIZE_MAX;
  const Tensor x = on_device(*queue, counting(kElements));
  std::vector<Tensor> outputs;
};

TEST_F(BorrowedPieces, TemporariesAreGoneWhenOutputsCome) {
  Context context(load(narrowing(false)));
  lend(context);
  for (int k = 0; k < 3; ++k) {
    context.run_into({&x, 1}, outputs);
    check_values(context, outputs);
    EXPECT_EQ(*live, 4 * kBytes) << "only outputs are left";
  }
  EXPECT_GE(most, 4 * kBytes);
  EXPECT_LT(most, 4 * kBytes + kBytes / 4);
  EXPECT_LT(context.memory().arena_bytes, kBytes / 4) << "beyond the outputs";
}

TEST_F(BorrowedPieces, TemporariesAndInputsAreGoneWhenOutputsComeBehindALoop) {
  Context context(load(in_turns()));
  lend(context);
  std::vector<std::uint32_t> gone;
  std::size_t live_then = 0;
  context.set_inputs_done(
      [&](std::span<const std::uint32_t> inputs) {
        gone.insert(gone.end(), inputs.begin(), inputs.end());
        live_then = *live;
      },
      {}, {});
  for (int k = 0; k < 3; ++k) {
    context.run_into({&x, 1}, outputs);
    check_values(context, outputs, 18);
    EXPECT_EQ(*live, 4 * kBytes) << "only outputs are left";
  }
  EXPECT_EQ(gone, std::vector<std::uint32_t>(3, 0));
  EXPECT_LE(live_then, 3 * kBytes) << "the input goes before there is any output";
  EXPECT_GE(most, 4 * kBytes);
  EXPECT_LT(most, 4 * kBytes + kBytes / 4);
}

TEST_F(BorrowedPieces, SizesThatTakeTurnsHavePiecesOfTheirOwn) {
  Context context(load(narrowing(false)));
  lend(context);
  const Tensor small = on_device(*queue, counting(7)), none = on_device(*queue, {});
  for (const Tensor* given : {&x, &small, &x, &none, &small, &x}) {
    context.run_into({given, 1}, outputs);
    EXPECT_EQ(values_of(context.to_host(outputs.at(3))), times(counting(static_cast<std::size_t>(given->numel())), 80));
  }
  EXPECT_LT(most, 4 * kBytes + kBytes / 4);
}

TEST_F(BorrowedPieces, ProgramsThatAreRecordedHaveOneArena) {
  Context context(load(narrowing(false)));
  lend(context);
  context.set_recording(true);
  for (int k = 0; k < 3; ++k) context.run_into({&x, 1}, outputs);
  check_values(context, outputs);
  EXPECT_GE(most, 7 * kBytes);
  context.set_recording(false);
  most = 0;
  outputs.clear();
  context.run_into({&x, 1}, outputs);
  check_values(context, outputs);
  EXPECT_LT(most, 4 * kBytes + kBytes / 4);
}

TEST_F(BorrowedPieces, ProgramsThatWriteToInputsHaveAllMemoryBeforeTheFirstStepUnlessTheyAreToBeAsEager) {
  for (bool as_eager : {false, true}) {
    Context context(load(narrowing(true)));
    lend(context);
    context.set_writes_as_eager(as_eager);
    most = 0;
    outputs.clear();
    write(*queue, x, counting(kElements));
    context.run_into({&x, 1}, outputs);
    check_values(context, outputs);
    EXPECT_EQ(values_of(context.to_host(x)), times(counting(kElements), 160));
    EXPECT_EQ(most >= 7 * kBytes, !as_eager) << most;
    EXPECT_EQ(most < 4 * kBytes + kBytes / 4, as_eager) << most;
  }
}

TEST_F(BorrowedPieces, ARunThatFindsNoMemoryForAPieceSaysWhatItNeedsAndTheNextIsRight) {
  Context context(load(narrowing(false)));
  lend(context);
  limit = 2 * kBytes;
  const std::string said = error_of([&] { context.run_into({&x, 1}, outputs); });
  EXPECT_TRUE(has(said, "no memory; ")) << said;
  EXPECT_TRUE(has(said, " of temporaries, ")) << said;
  EXPECT_TRUE(has(said, "the largest that are live at once: ")) << said;
  EXPECT_EQ(*live, 0u) << "a run that failed keeps nothing";
  limit = SIZE_MAX;
  context.run_into({&x, 1}, outputs);
  check_values(context, outputs);
}

}  // namespace
}  // namespace coil::runtime
