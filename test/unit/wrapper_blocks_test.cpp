#include <gtest/gtest.h>

#include "error_of.h"
#include "passes/wrapper/lifetimes.h"
#include "wrapper/plan.h"
#include "wrapper/text.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::BufferId;
using wrapper::Control;
using Kind = Control::Kind;

/// A loop that counts to 3: in each turn t = f(x), and r, made before the loop, takes t in.
struct Looped : WrapperProgram {
  BufferId x, r, t, out;
  Looped() : x(input("x", {8})), r(temporary("r", {8})), t(temporary("t", {8})), out(temporary("out", {8})) {
    call({x}, r);
    lines.emplace_back(Control{Kind::Loop, 1, env->fresh_unbacked(), 3});
    call({x}, t);
    call({t}, r, true);
    lines.emplace_back(Control{Kind::EndLoop});
    call({r}, out);
    returns(out);
  }
};

TEST(WrapperBlocks, WhatALoopHandsOnLivesAroundItAndTheRestInsideATurn) {
  Looped p;
  wrapper::plan_lifetimes(p);
  EXPECT_NO_THROW(wrapper::verify(p));
  const std::string text = wrapper::to_string(p);
  EXPECT_NE(text.find("allocate r\n"
                      "call coil_k(x, &r; []) over 1 by 1\n"
                      "loop u0 < 3:\n"
                      "  allocate t\n"
                      "  call coil_k(x, &t; []) over 1 by 1\n"
                      "  call coil_k(t, &r; []) over 1 by 1\n"
                      "  free t\n"
                      "end loop\n"
                      "allocate out\n"
                      "call coil_k(r, &out; []) over 1 by 1\n"
                      "free r\n"),
            std::string::npos)
      << text;
  const runtime::Plan plan = wrapper::make_plan(p);
  EXPECT_EQ(plan.static_arena_bytes, 128u) << "two buffers of 32 bytes, each on a line of its own";
  EXPECT_EQ(std::get<runtime::Control>(plan.steps[1]).target, 5u);
  EXPECT_EQ(std::get<runtime::Control>(plan.steps[4]).target, 1u);
}

TEST(WrapperBlocks, TextReadsBack) {
  WrapperProgram p;
  const BufferId x = p.input("x", {8}), n = p.temporary("n", {}), a = p.temporary("a", {8}),
                 out = p.temporary("out", {8});
  p.buffers[n].dtype = DType::I64;
  const sym::Expr count = p.env->fresh_unbacked(), turn = p.env->fresh_unbacked(), forever = p.env->fresh_unbacked();
  p.call({x}, n);
  p.lines.emplace_back(wrapper::ReadSymbol{count, n});
  p.lines.emplace_back(Control{Kind::If, sym::lt(count, 3)});
  p.call({x}, out);
  p.lines.emplace_back(Control{Kind::Else});
  p.lines.emplace_back(Control{Kind::Loop, 1, turn, count + 1});
  p.lines.emplace_back(Control{Kind::Loop, 1, forever});
  p.lines.emplace_back(Control{Kind::BreakUnless, sym::lt(forever, turn)});
  p.call({x}, a);
  p.lines.emplace_back(Control{Kind::EndLoop});
  p.lines.emplace_back(Control{Kind::EndLoop});
  p.call({x}, out);
  p.lines.emplace_back(Control{Kind::EndIf});
  p.returns(out);
  wrapper::plan_lifetimes(p);
  const std::string text = wrapper::to_text(p);
  const wrapper::Program back = wrapper::parse(text);
  EXPECT_NO_THROW(wrapper::verify(back)) << text;
  EXPECT_EQ(wrapper::to_text(back), text);
}

TEST(WrapperBlocks, BranchesShareMemory) {
  WrapperProgram p;
  const BufferId x = p.input("x", {8}), a = p.temporary("a", {8}), b = p.temporary("b", {8}),
                 out = p.temporary("out", {8});
  p.lines.emplace_back(Control{Kind::If, p.env->add_size("s0", 1)});
  p.call({x}, a);
  p.call({a}, out);
  p.lines.emplace_back(Control{Kind::Else});
  p.call({x}, b);
  p.call({b}, out);
  p.lines.emplace_back(Control{Kind::EndIf});
  p.returns(out);
  p.lines.insert(p.lines.begin(), wrapper::DefineSymbol{p.env->add_size("s0", 1)});
  wrapper::plan_lifetimes(p);
  EXPECT_NO_THROW(wrapper::verify(p));
  const runtime::Plan plan = wrapper::make_plan(p);
  EXPECT_EQ(plan.buffers[a].arena_offset, plan.buffers[b].arena_offset);
  EXPECT_EQ(plan.static_arena_bytes, 64u);
  EXPECT_EQ(std::get<runtime::Control>(plan.steps[0]).target, 4u) << "past Else";
  EXPECT_EQ(std::get<runtime::Control>(plan.steps[3]).target, 7u) << "past EndIf";
}

/// if s0 < 3: u0 = 2, r of u0 elements; else u0 = s0, r the same; then out = f(r).
struct Told : WrapperProgram {
  sym::Expr s = env->add_size("s0", 1), u = env->add_unbacked("u0", {0, 8});
  BufferId x, r, out;
  Told() : x(input("x", {8})), r(temporary("r", {u})), out(temporary("out", {8})) {
    lines.insert(lines.begin(), wrapper::DefineSymbol{s});
    lines.emplace_back(Control{Kind::If, sym::lt(s, 3)});
    lines.emplace_back(wrapper::SetSymbol{u, 2});
    call({x}, r);
    lines.emplace_back(Control{Kind::Else});
    lines.emplace_back(wrapper::SetSymbol{u, s});
    call({x}, r);
    lines.emplace_back(Control{Kind::EndIf});
    call({r}, out);
    returns(out);
  }
};

TEST(WrapperBlocks, WhatBothSidesMakeIsThereAfterTheBranch) {
  Told p;
  wrapper::plan_lifetimes(p);
  EXPECT_NO_THROW(wrapper::verify(p));
  const std::string text = wrapper::to_text(p);
  for (const char* side :
       {"symbol u0 = number(2)\n  allocate r\n", "symbol u0 = number(s0)\n  allocate r\n", "end if\nallocate out\n"})
    EXPECT_NE(text.find(side), std::string::npos) << text;
  EXPECT_EQ(wrapper::to_text(wrapper::parse(text)), text);
  const auto joined = wrapper::joined_values(p);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined.begin()->second.symbols, sym::Exprs{p.u});
  EXPECT_EQ(joined.begin()->second.buffers, std::vector<BufferId>{p.r});
  EXPECT_EQ(wrapper::runtime_symbols(p), sym::Exprs{p.u});
  const runtime::Plan plan = wrapper::make_plan(p);
  auto count = [&]<class T>(T) {
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const runtime::Step& s) { return std::holds_alternative<T>(s); });
  };
  EXPECT_EQ(count(runtime::SetNumber{}), 2);
  EXPECT_EQ(count(runtime::AllocateBuffer{}), 2);
  EXPECT_EQ(count(runtime::FreeBuffer{}), 1);
}

TEST(WrapperBlocks, BothSidesMustMakeIt) {
  Told p;
  wrapper::plan_lifetimes(p);
  auto without = [&](auto unwanted) {
    Told q = p;
    q.lines.erase(std::find_if(q.lines.rbegin(), q.lines.rend(), unwanted).base() - 1);
    return error_of([&] { wrapper::verify(q); });
  };
  const BufferId r = p.r;
  EXPECT_NE(without([](const wrapper::Line& l) {
              return std::holds_alternative<wrapper::SetSymbol>(l);
            }).find("u0 before it is defined"),
            std::string::npos);
  EXPECT_NE(without([&](const wrapper::Line& l) {
              auto* a = std::get_if<wrapper::Allocate>(&l);
              return a && a->buffer == r;
            }).find("r, which is not allocated"),
            std::string::npos);
}

TEST(WrapperBlocks, SymbolsAreDefinedBeforeTheirUseAndInTheirBlock) {
  WrapperProgram p;
  const sym::Expr u = p.env->add_unbacked("u0", {0, 8});
  const BufferId x = p.input("x", {8}), n = p.buffer("n", wrapper::BufferKind::Temporary, {}, DType::I64),
                 t = p.temporary("t", {u}), out = p.temporary("out", {8});
  p.call({x}, n);
  p.lines.emplace_back(wrapper::ReadSymbol{u, n});
  p.call({x}, t);
  p.call({t}, out);
  p.returns(out);
  WrapperProgram early = p, inner = p;
  std::swap(early.lines[2], early.lines[3]);  // the first line defines the kernel
  inner.lines.insert(inner.lines.begin() + 3, Control{Kind::EndLoop});
  inner.lines.insert(inner.lines.begin() + 1, Control{Kind::Loop, 1, p.env->fresh_unbacked(), 3});
  for (WrapperProgram* q : {&p, &early, &inner}) wrapper::plan_lifetimes(*q);
  EXPECT_NO_THROW(wrapper::verify(p));
  EXPECT_NE(error_of([&] { wrapper::verify(early); }).find("uses symbol u0 before it is defined"), std::string::npos);
  EXPECT_NE(error_of([&] { wrapper::verify(inner); }).find("uses symbol u0 before it is defined"), std::string::npos);
  const runtime::Plan plan = wrapper::make_plan(p);
  EXPECT_EQ(std::count_if(plan.steps.begin(), plan.steps.end(),
                          [](const runtime::Step& s) { return std::holds_alternative<runtime::AllocateBuffer>(s); }),
            1)
      << "only t is sized as the program runs";
  EXPECT_EQ(std::count_if(plan.steps.begin(), plan.steps.end(),
                          [](const runtime::Step& s) { return std::holds_alternative<runtime::FreeBuffer>(s); }),
            1);
}

}  // namespace
}  // namespace coil
