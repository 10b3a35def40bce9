// Guards of torch.export: Python conditions about inputs, as expressions.
#include "frontend/guards.h"

#include <gtest/gtest.h>

#include <map>

#include "sym/print.h"

namespace coil::frontend {
namespace {

using sym::Expr;

struct Guards : testing::Test {
  /// The condition's text; empty where it is not understood.
  std::string read(std::string_view text) {
    const auto condition = parse_guard(text, [&](const GuardOperand& o) -> std::optional<Expr> {
      const char* what = o.kind == GuardOperand::Kind::Size ? "size" : "stride";
      const std::string name =
          o.kind == GuardOperand::Kind::Number ? o.input : o.input + "." + what + std::to_string(o.dim);
      const auto found = operands.find(name);
      return found == operands.end() ? std::nullopt : std::optional(found->second);
    });
    return condition ? sym::to_string(*condition) : std::string();
  }
  sym::Context context;
  const std::map<std::string, Expr> operands{{"x.size0", context.symbol("s0", sym::SymbolKind::Size)},
                                             {"x.size2", context.symbol("s2", sym::SymbolKind::Size)},
                                             {"parts_1_a.size0", context.symbol("s3", sym::SymbolKind::Size)},
                                             {"x.stride1", context.symbol("s4", sym::SymbolKind::Size)},
                                             {"n", context.symbol("s5", sym::SymbolKind::Size)}};
};

TEST_F(Guards, SayWhatPythonSays) {
  EXPECT_EQ(read("(L['x'].size()[2] // 2) == 4"), "Eq(FloorDiv(s2, 2), 4)");
  EXPECT_EQ(read("((-3) + 2*L['x'].size()[0]) % 7 < L['n'] - 1"), "Mod(2*s0 + 4, 7) + 2 <= s5");
  EXPECT_EQ(read("L['parts'][1]['a'].size()[0] > L['x'].stride()[1]"), "s4 < s3");
  EXPECT_EQ(read("L['parts'][1].a.size()[0] <= max(1, L['n'], 3)"), "s3 <= Max(3, s5)");
  EXPECT_EQ(read("not (L['n'] == 1) and L['n'] != 2 or False"), read("L['n'] != 1 and L['n'] != 2"));
  EXPECT_EQ(read("--L['n'] == 2 and not not (L['n'] - -1 == 3)"), read("L['n'] == 2 and L['n'] + 1 == 3"));
  EXPECT_EQ(read("(1 / L['n']) == 0.125"), "Ne(FloatEq(IntTrueDiv(1, s5), 0.125), 0)");
  EXPECT_EQ(read("math.trunc(torch.sym_float(L['n']) ** 0.5) == 3"), "Eq(TruncToInt(FloatPow(ToFloat(s5), 0.5)), 3)");
  EXPECT_EQ(read("math.floor(torch._sym_sqrt(L['n'])) == 2"), "Eq(FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(s5))), 2)");
  EXPECT_EQ(read("(3 if L['n'] > 2 else 5) == L['n']"), read("(3 if 2 < L['n'] else 5) == L['n']"));
}

TEST_F(Guards, AreLeftOutWhereTheyAreNotUnderstood) {
  for (const char* text : {"", "L['y'].size()[0] == 1", "L['x'].size()[9] == 1", "L['x'].storage_offset() == 0",
                           "L['n'] ==", "(L['n'] == 1", "L['n'] == 1)", "len(L['n']) == 1", "L['n'", "1 +* 2 == 3",
                           "math.max() == 1", "L['x'].size()[99999999999999999999] == 1"})
    EXPECT_EQ(read(text), "") << text;
  EXPECT_EQ(read(std::string(100000, '(')), "");
  for (const char* repeated : {"(", "-", "not ", "2**", "1+", "1 if 1 else "}) {
    std::string text;
    while (text.size() < 10000) text += repeated;
    EXPECT_EQ(read(text), "") << repeated;
  }
}

TEST_F(Guards, OfLayoutsAloneNeedNotHold) {
  const auto layouts = [&](std::string_view text) {
    return only_tells_layouts(*parse_guard(text, [&](const GuardOperand&) { return operands.at("n"); }));
  };
  EXPECT_TRUE(layouts("L['n'] != 5"));
  EXPECT_TRUE(layouts("L['n'] >= 2"));
  EXPECT_TRUE(layouts("1 < L['n'] * L['n']"));
  EXPECT_FALSE(layouts("L['n'] >= 3"));
  EXPECT_FALSE(layouts("L['n'] // 2 == 5"));
  EXPECT_FALSE(layouts("1 / L['n'] == 0.5"));
}

TEST_F(Guards, AreToldInTheUsersNames) {
  EXPECT_EQ(readable_guard("(L['x'].size()[2] // 2) == L['parts'][0].size()[1]"),
            "(x.size()[2] // 2) == parts[0].size()[1]");
}

}  // namespace
}  // namespace coil::frontend
