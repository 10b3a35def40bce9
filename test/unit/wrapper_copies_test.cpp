#include <gtest/gtest.h>

#include "passes/wrapper/coalesce_copies.h"
#include "passes/wrapper/lifetimes.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::BufferId;
using wrapper::CallKernel;

struct Program : WrapperProgram {
  BufferId state(const std::string& name) {
    const BufferId id = input(name, {8});
    inputs.back().mutated = true;
    return id;
  }
  void copy(BufferId from, BufferId to) {
    call({from}, to);
    std::get<CallKernel>(lines.back()).copies = {from, to};
  }
  /// Calls left, after copies are coalesced; the program must still be sound.
  std::size_t calls_left() {
    wrapper::coalesce_copies(*this);
    wrapper::plan_lifetimes(*this);
    EXPECT_NO_THROW(wrapper::verify(*this));
    return count<CallKernel>();
  }
  const CallKernel& call_at(std::size_t n) const {
    for (const wrapper::Line& l : lines)
      if (auto* c = std::get_if<CallKernel>(&l); c && n-- == 0) return *c;
    throw std::out_of_range("no such call");
  }
};

TEST(WrapperCopies, ANewValueIsMadeInTheMemoryItBelongsTo) {
  Program p;
  const BufferId x = p.state("x"), y = p.input("y", {8}), b = p.temporary("b", {8});
  p.call({y}, b);
  p.copy(b, x);
  EXPECT_EQ(p.calls_left(), 1u);
  EXPECT_EQ(p.call_at(0).buffers, (std::vector<BufferId>{y, x}));
}

TEST(WrapperCopies, AKernelThatReadsTheOldValueMustBeAbleToWriteOverIt) {
  for (bool in_place : {false, true}) {
    Program p;
    const BufferId x = p.state("x"), b = p.temporary("b", {8});
    p.call({x}, b, in_place);
    p.copy(b, x);
    EXPECT_EQ(p.calls_left(), in_place ? 1u : 2u) << in_place;
  }
}

TEST(WrapperCopies, AReaderOfTheOldValueAfterwardsKeepsTheCopy) {
  for (bool after : {false, true}) {
    Program p;
    const BufferId x = p.state("x"), y = p.input("y", {8}), b = p.temporary("b", {8}), out = p.temporary("out", {8});
    if (!after) p.call({x}, out);
    p.call({y}, b);
    if (after) p.call({x}, out);
    p.returns(out);
    p.copy(b, x);
    EXPECT_EQ(p.calls_left(), after ? 3u : 2u) << after;
  }
}

TEST(WrapperCopies, AValueThatLivesOnKeepsItsOwnMemory) {
  Program p;
  const BufferId x = p.state("x"), y = p.input("y", {8}), b = p.temporary("b", {8});
  p.call({y}, b);
  p.returns(b);
  p.copy(b, x);
  EXPECT_EQ(p.calls_left(), 2u) << "the output and the input are two tensors";
}

TEST(WrapperCopies, AnInputThatIsOnlyReadIsNotWrittenTo) {
  Program p;
  const BufferId x = p.input("x", {8}), y = p.input("y", {8}), b = p.temporary("b", {8}), out = p.temporary("out", {8});
  p.copy(x, b);
  p.call({y}, b);
  p.call({b}, out);
  p.returns(out);
  EXPECT_EQ(p.calls_left(), 3u);
}

TEST(WrapperCopies, AChainOfPartsIsWrittenWhereItEndsUp) {
  // x -> a, a part of a is written, a is read, a -> b, a part of b is written, b -> x
  for (bool late_reader : {false, true}) {
    Program p;
    const BufferId x = p.state("x"), y = p.input("y", {8}), a = p.temporary("a", {8}), b = p.temporary("b", {8}),
                   out = p.temporary("out", {8});
    p.copy(x, a);
    p.call({y}, a);
    if (!late_reader) p.call({a}, out);
    p.copy(a, b);
    p.call({y}, b);
    if (late_reader) p.call({a}, out);
    p.returns(out);
    p.copy(b, x);
    EXPECT_EQ(p.calls_left(), late_reader ? 5u : 3u) << late_reader << ": only copies keep what the late reader wants";
  }
}

TEST(WrapperCopies, WritesInALoopAreLeftAlone) {
  Program p;
  const BufferId x = p.state("x"), y = p.input("y", {8}), b = p.temporary("b", {8}), c = p.temporary("c", {8});
  p.call({y}, b);
  p.lines.emplace_back(
      wrapper::Control{.kind = wrapper::Control::Kind::Loop, .counter = p.env->fresh_unbacked(), .extent = 3});
  p.call({x}, c);
  p.call({c}, b);
  p.lines.emplace_back(wrapper::Control{.kind = wrapper::Control::Kind::EndLoop});
  p.copy(b, x);
  EXPECT_EQ(p.calls_left(), 4u) << "the next turn reads the old value";
}

}  // namespace
}  // namespace coil
