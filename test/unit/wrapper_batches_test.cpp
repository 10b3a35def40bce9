#include <gtest/gtest.h>

#include <algorithm>

#include "passes/wrapper/batch_launches.h"
#include "passes/wrapper/lifetimes.h"
#include "support/error.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::BufferId;
using wrapper::CallKernel;

/// Knows how to launch a kernel several times at once, and nothing else.
struct Launcher : codegen::Backend {
  const target::Target& target() const override { return gpu; }
  const scheduler::Choices& choices() const override { throw Error("not asked for"); }
  codegen::Kernel group(ir::Graph&, const scheduler::Group&) const override { throw Error("not asked for"); }
  codegen::Kernel scatter(ir::Graph&, const ir::Operation&) const override { throw Error("not asked for"); }
  bool has_template(std::string_view) const override { return false; }
  codegen::Kernel template_kernel(ir::Graph&, const ir::Extern&) const override { throw Error("not asked for"); }
  std::optional<codegen::KernelParts> batch(const codegen::KernelParts& parts, std::size_t,
                                            std::size_t) const override {
    return parts;
  }
  codegen::Binaries compile(std::span<const std::string>, const codegen::CompileKernels&) const override {
    throw Error("not asked for");
  }
  target::Target gpu = target::cuda(0, "sm_90");
};

struct Program : WrapperProgram {
  Program() {
    for (const char* symbol : {"produce", "sum"}) {
      kernels.push_back({symbol, "", codegen::KernelParts{}});
      lines.emplace_back(wrapper::DefineKernel{kernels.size() - 1});
    }
  }
  void launch(std::size_t kernel, std::vector<BufferId> from, BufferId to) {
    call(std::move(from), to);
    auto& c = std::get<CallKernel>(lines.back());
    c.kernel = kernel;
    c.launch = codegen::SymbolicLaunch{{1, 1, 1}, 128, 0};
  }
  /// A layer: something produced of the input, and its sum.
  BufferId layer(BufferId x, std::int64_t size) {
    const BufferId part = temporary("part", {size}), sum = temporary("sum", {8});
    launch(0, {x}, part);
    launch(1, {part}, sum);
    return sum;
  }
  /// Kernels in the order in which they are launched.
  std::vector<std::string> launches() {
    wrapper::batch_launches(*this, Launcher());
    wrapper::plan_lifetimes(*this);
    std::vector<std::string> out;
    for (const wrapper::Line& l : lines)
      if (auto* c = std::get_if<CallKernel>(&l)) out.push_back(kernels[c->kernel].symbol);
    return out;
  }
};

using Names = std::vector<std::string>;

TEST(WrapperBatches, SumsThatAreResultsWaitForTheLastOfTheirKind) {
  Program p;
  BufferId x = p.input("x", {8});
  for (int k = 0; k < 3; ++k) {
    const BufferId next = p.temporary("next", {8});
    p.returns(p.layer(x, 64));
    p.launch(0, {x}, next);
    x = next;
  }
  p.returns(x);
  const Names launches = p.launches();
  EXPECT_EQ(launches.back(), "sum_x3") << fmt::format("{}", fmt::join(launches, " "));
  EXPECT_EQ(std::ranges::count_if(launches, [](const std::string& name) { return name.starts_with("sum"); }), 1);
}

TEST(WrapperBatches, WhatTheProgramReadsOrWhatReadsMuchDoesNotWait) {
  for (const auto& [size, read] : {std::pair<std::int64_t, bool>{1 << 20, false}, {64, true}}) {
    Program p;
    BufferId x = p.input("x", {8});
    for (int k = 0; k < 2; ++k) {
      const BufferId sum = p.layer(x, size), next = p.temporary("next", {8});
      p.returns(sum);
      p.launch(0, {read ? sum : x}, next);
      x = next;
    }
    p.returns(x);
    EXPECT_EQ(std::ranges::count(p.launches(), "sum"), 2) << size << read;
  }
}

TEST(WrapperBatches, TheSameMemoryIsNotWrittenTwiceAtOnce) {
  Program p;
  const BufferId x = p.input("x", {8}), out = p.temporary("out", {8});
  p.launch(1, {x}, out);
  p.launch(1, {x}, out);
  p.returns(out);
  EXPECT_EQ(p.launches(), (Names{"sum", "sum"}));
}

TEST(WrapperBatches, CallsOnGivenMemoryJoinTheFirst) {
  Program p;
  const BufferId x = p.input("x", {8});
  BufferId last = x;
  for (int k = 0; k < 2; ++k) {
    const BufferId cast = p.temporary("cast", {8}), next = p.temporary("next", {8});
    p.launch(1, {p.input("w", {8})}, cast);
    p.launch(0, {last, cast}, next);
    last = next;
  }
  p.returns(last);
  EXPECT_EQ(p.launches(), (Names{"sum_x2", "produce", "produce"}));
}

}  // namespace
}  // namespace coil
