#include <gtest/gtest.h>

#include "error_of.h"
#include "wrapper/text.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::Allocate;
using wrapper::BufferId;
using wrapper::DefineSymbol;
using wrapper::Free;
using wrapper::Reuse;

/// A correct program that each test breaks in one way: x -> a -> b, b reusing a's memory.
struct Program : WrapperProgram {
  sym::Expr s = env->add_size("s0", 4);
  BufferId x = input("x", {s}), a = temporary("a", {s}), b = temporary("b", {s}), out = temporary("out", {s});
  Program() {
    lines = {DefineSymbol{s, 0, DefineSymbol::From::Size, 0}, Allocate{a}};
    call({x}, a);
    lines.emplace_back(Reuse{a, b});
    call({a}, b);
    lines.emplace_back(Free{a});
    lines.emplace_back(Allocate{out});
    call({b}, out);
    lines.emplace_back(Free{b});
    returns(out);
  }
  std::string fault() {
    return error_of([&] { wrapper::verify(*this); });
  }
};

void expect_fault(Program& p, const char* part) {
  EXPECT_NE(p.fault().find(part), std::string::npos) << p.fault() << "\n" << wrapper::to_string(p);
}

TEST(WrapperVerify, ACorrectProgramPasses) { EXPECT_EQ(Program().fault(), "no error"); }

TEST(WrapperVerify, UseBeforeAllocation) {
  Program p;
  p.lines.erase(p.lines.begin() + 2);
  expect_fault(p, "line 2 uses a, which is not allocated");
}

TEST(WrapperVerify, UseAfterFree) {
  Program p;
  std::swap(p.lines[5], p.lines[6]);
  expect_fault(p, "line 6 uses a, which is freed");
}

TEST(WrapperVerify, AllocatedTwice) {
  Program p;
  p.lines.insert(p.lines.begin() + 3, Allocate{p.a});
  expect_fault(p, "line 3 allocates a again");
}

TEST(WrapperVerify, FreedTwice) {
  Program p;
  p.lines.emplace_back(Free{p.b});
  expect_fault(p, "uses b, which is freed");
}

TEST(WrapperVerify, NeverFreed) {
  Program p;
  p.lines.pop_back();
  expect_fault(p, "b is never freed");
}

TEST(WrapperVerify, SymbolBeforeItsDefinition) {
  Program p;
  std::swap(p.lines[1], p.lines[2]);
  expect_fault(p, "line 1 uses symbol s0 before it is defined");
}

TEST(WrapperVerify, ReuseOfAnotherSize) {
  Program p;
  p.buffers[p.b].bytes = p.s * 8;
  expect_fault(p, "line 4 reuses memory of another size");
}

TEST(WrapperVerify, OutputThatWasNeverMade) {
  Program p;
  p.lines.erase(p.lines.begin() + 7, p.lines.begin() + 9);
  expect_fault(p, "uses out, which is not allocated");
}

TEST(WrapperVerify, KernelBeforeItsDefinition) {
  Program p;
  p.lines.erase(p.lines.begin());
  expect_fault(p, "calls coil_k before it is defined");
}

TEST(WrapperVerify, AnInputWrittenToInSecret) {
  Program p;
  std::get<wrapper::CallKernel>(p.lines[3]).buffers = {p.a, p.x};
  expect_fault(p, "writes to the input x");
  p.inputs[0].mutated = true;
  EXPECT_EQ(p.fault(), "no error");
}

TEST(WrapperVerify, AnOutputInATemporary) {
  Program p;
  p.buffers[p.out].kind = wrapper::BufferKind::Temporary;
  expect_fault(p, "the output output lies in the temporary out");
}

TEST(WrapperVerify, ACallForAnotherDevice) {
  Program p;
  std::get<wrapper::CallKernel>(p.lines[3]).launch.emplace();
  expect_fault(p, "calls coil_k as another device does");
}

TEST(WrapperVerify, ASymbolOfAView) {
  Program p;
  p.outputs.push_back({"more", wrapper::View{p.x, DType::F32, {p.env->add_size("s1", 2)}, {1}, 0}});
  expect_fault(p, "uses symbol s1 before it is defined");
}

}  // namespace
}  // namespace coil
