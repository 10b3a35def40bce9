// Which values may become communication buffers, and which arguments operators may have in them.
#include <gtest/gtest.h>

#include "compiler/library.h"
#include "error_of.h"
#include "ir/comm_buffers.h"
#include "runtime/cuda/groups/peer_sums.h"
#include "runtime/host/symm_mem_args.h"

namespace coil {
namespace {

using ir::BufferKind;

struct CommBuffers : testing::Test {
  std::shared_ptr<sym::ShapeEnv> env = std::make_shared<sym::ShapeEnv>();
  ir::Graph graph{env};
  const ir::CommBufferLayout all{ir::CommKind::Symmetric, "default"}, some{ir::CommKind::Symmetric, "tp"};

  ir::TensorBox buffer(BufferKind kind, sym::Exprs sizes, bool fixed = false) {
    sym::Exprs strides = sym::contiguous_strides(sizes);
    const ir::Layout layout{DType::F32, {}, std::move(sizes), std::move(strides), fixed};
    return ir::whole(graph, graph.add_buffer("b", kind, layout).id);
  }
  ir::TensorBox loop(sym::Exprs sizes) {
    return ir::make_pointwise(graph, DType::F32, {}, std::move(sizes), graph.pool().constant(DType::F32, 2));
  }
  std::string refusal(const ir::TensorBox& box) { return ir::comm_buffer_refusal(box, all).value_or("none"); }
};

// Two ranks move as much in one shot as in two; for more, one shot is for sizes that fall with their number.
TEST(PeerSums, OneShotByTheNumberOfRanks) {
  using runtime::cuda::PeerSums;
  EXPECT_GE(PeerSums::one_shot_bytes(2), std::size_t{64} << 20);
  for (int ranks = 3; ranks <= 8; ++ranks) {
    EXPECT_LT(PeerSums::one_shot_bytes(ranks), PeerSums::one_shot_bytes(ranks - 1)) << ranks;
    EXPECT_GE(PeerSums::one_shot_bytes(ranks), std::size_t{256} << 10) << "what programs always add in one shot";
  }
  EXPECT_NEAR(static_cast<double>(PeerSums::one_shot_bytes(4)), 826e3, 1e3);
}

TEST_F(CommBuffers, LoopsAndOpenLayoutsMay) {
  EXPECT_EQ(refusal(loop({4, 8})), "none");
  EXPECT_EQ(refusal(buffer(BufferKind::Computed, {4, 8})), "none");
}

TEST_F(CommBuffers, ThroughAViewTheBufferBecomesOne) {
  const ir::TensorBox box = loop({4, 8}), turned = box.view({8, 4}, {graph.ivar(1), graph.ivar(0)});
  const ir::BufferId id = ir::realize_as_comm_buffer(turned, all);
  EXPECT_EQ(id, *box.storage->buffer);
  EXPECT_EQ(graph.buffer(id).layout.comm, all);
  EXPECT_TRUE(graph.buffer(id).layout.fixed);
}

TEST_F(CommBuffers, OneThatIsOneMayAgainInItsGroupOnly) {
  const ir::TensorBox box = loop({4});
  ir::realize_as_comm_buffer(box, some);
  EXPECT_EQ(ir::comm_buffer_refusal(box, some), std::nullopt);
  EXPECT_EQ(refusal(box), "it is one of process group 'tp' already");
}

TEST_F(CommBuffers, OthersAreRefusedWithTheReason) {
  EXPECT_TRUE(has(refusal(buffer(BufferKind::Input, {4}, true)), "whose memory is the caller's"));
  EXPECT_TRUE(has(refusal(buffer(BufferKind::Constant, {4}, true)), "it is the constant b"));
  EXPECT_TRUE(has(refusal(buffer(BufferKind::Computed, {4}, true)), "is settled by another use"));
  const ir::TensorBox out = buffer(BufferKind::Computed, {4});
  graph.buffer(*out.storage->buffer).is_output = true;
  EXPECT_TRUE(has(refusal(out), "it is handed to the caller"));
  const ir::TensorBox there =
      ir::make_pointwise(graph, DType::F32, Device{DeviceType::Meta, 0}, {4}, graph.pool().constant(DType::F32, 2));
  EXPECT_TRUE(has(refusal(there), "it lies on meta"));
  EXPECT_TRUE(has(error_of([&] { ir::realize_as_comm_buffer(buffer(BufferKind::Input, {4}, true), all); }),
                  "cannot become a communication buffer of process group 'default': it is the input"));
}

TEST_F(CommBuffers, ASymbolicSizeHasTheBytesOfTheLargest) {
  const sym::Expr rows = env->add_size("s0", 3, {1, 64}), any = env->add_size("s1", 3);
  EXPECT_EQ(refusal(loop({rows, 4})), "none");
  EXPECT_EQ(ir::comm_bytes(*env, DType::F32, {rows, 4}, {4, 1}), 64 * 4 * 4);
  EXPECT_EQ(refusal(loop({any, 4})), "its size [s1, 4] has no upper bound");
  EXPECT_EQ(ir::comm_bytes(*env, DType::F32, {0, 4}, {4, 1}), 0);
}

TEST(SymmMemArgs, LibrariesNameThem) {
  Library lib("commlib");
  lib.define("push(Tensor x, Tensor[] more, float by=1.0) -> Tensor")
      .define("commlib::swap(Tensor(a!) x) -> Tensor(a!)");
  lib.register_symm_mem_args("push", {"x", "more"}).register_symm_mem_args("commlib::push", {"more", "x"});
  EXPECT_EQ(runtime::symm_mem_args("commlib.push.default"), (std::vector<std::string>{"x", "more"}));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("push", {"x"}); }), "in shared memory already"));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("push", {"z"}); }), "has no argument 'z'"));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("push", {"by"}); }), "is float"));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("push", {"x", "x"}); }), "is named twice"));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("pull", {"x"}); }), "define it first"));
  EXPECT_TRUE(has(error_of([&] { lib.register_symm_mem_args("swap", {"x"}); }), "define it with `-> ()`"));
}

}  // namespace
}  // namespace coil
