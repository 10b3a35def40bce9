// Text forms: what is printed, what torch.export's text parses to, and what is refused.
#include <gtest/gtest.h>

#include "support/error.h"
#include "sym/print.h"
#include "sym/tensor_meta.h"

namespace coil::sym {
namespace {

struct SymPrint : testing::Test {
  Context context;
  Expr s0 = context.symbol("s0", SymbolKind::Size), s1 = context.symbol("s1", SymbolKind::Size);
  Expr s77 = context.symbol("s77", SymbolKind::Size);
  Expr i0 = context.symbol("i0", SymbolKind::Loop), i1 = context.symbol("i1", SymbolKind::Loop);

  Expr read(std::string_view text) {
    return parse(text, [&](std::string_view name) {
      return context.symbol(name, name[0] == 'i' ? SymbolKind::Loop : SymbolKind::Size);
    });
  }
  std::string refusal(std::string_view text) {
    try {
      return "accepted as " + to_string(read(text));
    } catch (const Error& e) {
      return e.what();
    }
  }
  std::string cpp(Expr e, bool nonnegative = false) {
    return to_cpp(e, [](Expr s) { return std::string(s.name()); }, [=](Expr) { return nonnegative; });
  }
  std::string python(Expr e) {
    return to_python(e, [](Expr s) { return std::string(s.name()); });
  }
};

TEST_F(SymPrint, ReadsWhatTorchWrites) {
  EXPECT_EQ(read("s77 + 1"), s77 + 1);
  EXPECT_EQ(read("2*s0"), 2 * s0);
  EXPECT_EQ(read("(s0//2)"), floor_div(s0, 2));
  EXPECT_EQ(read("((s0 + 1)//2)*s1"), floor_div(s0 + 1, 2) * s1);
  EXPECT_EQ(read("Max(1, s0)"), max(1, s0));
  EXPECT_EQ(read("Eq(s0, 4)"), eq(s0, 4));
  EXPECT_EQ(read("s0 <= 100"), le(s0, 100));
  EXPECT_EQ(read("s0 > 3"), ge(s0, 4));
  EXPECT_EQ(read("s0**2"), s0 * s0);
  EXPECT_EQ(read("-s0**2"), -(s0 * s0));
  EXPECT_EQ(read("FloorDiv(s0, 4)"), floor_div(s0, 4));
  EXPECT_EQ(read("PythonMod(s0, 4)"), mod(s0, 4));
  EXPECT_EQ(read("s0 % 4"), mod(s0, 4));
  EXPECT_EQ(read("CleanDiv(4*s0, 4)"), s0);
  EXPECT_EQ(read("4*s0*s1/s1"), 4 * s0);
  EXPECT_EQ(read("Min(s0, s1, 3)"), min(min(s0, s1), 3));
  EXPECT_EQ(read("CeilToInt(IntTrueDiv(s0, 2))"), ceil_div(s0, 2));
  EXPECT_EQ(read("(s0 < 4) & (s1 < 4)"), logical_and(lt(s0, 4), lt(s1, 4)));
  EXPECT_EQ(read("~(s0 < 4)"), ge(s0, 4));
  EXPECT_EQ(read("2 <= s0 < s1 and not s1 == 9"), logical_and(logical_and(le(2, s0), lt(s0, s1)), ne(s1, 9)));
  EXPECT_EQ(read("-9223372036854775808"), Expr(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(read("s0 - -3"), s0 + 3);
}

TEST_F(SymPrint, RefusesWithThePlace) {
  EXPECT_EQ(refusal("s0 +"), "cannot read the size expression `s0 +`: it ends too early (at position 4)");
  EXPECT_EQ(refusal("s0 s1"), "cannot read the size expression `s0 s1`: this does not belong here (at position 3)");
  EXPECT_EQ(refusal("IsNonOverlappingAndDenseIndicator(s0, 1)"),
            "cannot read the size expression `IsNonOverlappingAndDenseIndicator(s0, 1)`: sizes cannot contain "
            "IsNonOverlappingAndDenseIndicator (at position 0)");
  EXPECT_EQ(refusal("2 + ToFloat(s0)"),
            "cannot read the size expression `2 + ToFloat(s0)`: sizes cannot contain ToFloat (at position 4)");
  EXPECT_EQ(refusal("1.5*s0"), "cannot read the size expression `1.5*s0`: a whole number is expected (at position 0)");
  EXPECT_EQ(
      refusal("99999999999999999999"),
      "cannot read the size expression `99999999999999999999`: this number does not fit into 64 bits (at position 0)");
  EXPECT_EQ(refusal("9223372036854775807 + 1"), "a symbolic size leaves the range of 64-bit integers");
  EXPECT_EQ(refusal("s0//0"), "division by zero in a symbolic size");
  EXPECT_NE(refusal("Mod(s0)").find("another number of operands"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '(')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '~')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '-')).find("ends too early"), std::string::npos);
}

TEST_F(SymPrint, Text) {
  EXPECT_EQ(to_string(where(lt(i0, s0), i0 * (s1 + 1), -s0 * s0)), "Where(i0 < s0, i0 + i0*s1, -s0**2)");
  EXPECT_EQ(to_string(floor_div(s0 + 1, s1 - 2) * 3 - 4), "3*FloorDiv(s0 + 1, s1 - 2) - 4");
  EXPECT_EQ(to_string(pow(s0, s1)), "s0**s1");
  EXPECT_EQ(to_string(logical_or(eq(s0, 1), lt(s0, s1))), "Or(Eq(s0, 1), s0 < s1)");
  EXPECT_EQ(to_string(max(s0, 1)), "Max(1, s0)");
}

TEST_F(SymPrint, Cpp) {
  EXPECT_EQ(cpp(floor_div(i0 + 1, 4) * 3), "3*coil_floordiv(i0 + 1, 4)");
  EXPECT_EQ(cpp(floor_div(i0 + 1, 4) * 3, true), "3*((i0 + 1) / 4)");
  EXPECT_EQ(cpp(mod(floor_div(i0, 4), 8), true), "i0 / 4 % 8");
  EXPECT_EQ(cpp(max(max(s0, s1), 1)), "coil_max(coil_max(1, s0), s1)");
  EXPECT_EQ(cpp(where(logical_and(lt(i0, s0), eq(i1, 0)), i0, 5000000000)), "i1 == 0 && i0 < s0 ? i0 : 5000000000LL");
  EXPECT_EQ(cpp(s0 * s0 * s0), "s0*s0*s0");
}

TEST_F(SymPrint, Python) {
  EXPECT_EQ(python(floor_div(i0 + 1, 4) * s0 * s0), "s0**2*((i0 + 1) // 4)");
  EXPECT_EQ(python(ceil_div(s0 + 1, s1)), "-((-s0 - 1) // s1)");
  EXPECT_EQ(python(where(lt(i0, s0), min(i0, s1), mod(i0, s0))), "min(i0, s1) if i0 < s0 else i0 % s0");
}

TEST_F(SymPrint, KernelLanguages) {
  auto code = [&](Language language, Expr e, IntWidth width = IntWidth::Bits64) {
    return to_code(language, e, [](Expr s) { return std::string(s.name()); }, nullptr, width);
  };
  const Expr choice = where(logical_and(lt(i0, s0), eq(i1, 0)), floor_div(i0, 4), 5000000000);
  EXPECT_EQ(code(Language::Cuda, choice), "i1 == 0 && i0 < s0 ? coil_floordiv(i0, 4) : 5000000000LL");
  EXPECT_EQ(code(Language::Metal, choice), "i1 == 0 && i0 < s0 ? coil_floordiv(i0, 4) : 5000000000L");
  EXPECT_EQ(code(Language::Triton, where(lt(i0, 3), min(min(i0, s0), 7), mod(i0, 4)), IntWidth::Bits32),
            "tl.where(i0 <= 2, tl.minimum(tl.minimum(7, i0), s0), coil_mod(i0, 4))");
  EXPECT_EQ(code(Language::Triton, 2 * i0 + 1), "2*tl.cast(i0, tl.int64) + 1");
  EXPECT_THROW(code(Language::Triton, choice, IntWidth::Bits32), Error);
  // What is narrow by itself is widened before it is computed with.
  const Expr both = lt(i0, s0) + lt(i1, s0);
  EXPECT_EQ(code(Language::Cpp, both * 2000000000),
            "2000000000*(long long)(i0 < s0) + 2000000000*(long long)(i1 < s0)");
  EXPECT_EQ(code(Language::Triton, both, IntWidth::Bits32), "tl.cast(i0 < s0, tl.int32) + tl.cast(i1 < s0, tl.int32)");
  EXPECT_EQ(code(Language::Cpp, shift_left(1, s0)), "1LL << s0");
  EXPECT_EQ(code(Language::Metal, shift_left(1, s0)), "1L << s0");
  EXPECT_EQ(code(Language::Python, shift_left(1, s0)), "1 << s0");
}

TEST_F(SymPrint, TensorMeta) {
  Device cpu;
  EXPECT_EQ(to_string(contiguous(DType::F32, cpu, {2, s0})), "f32[2, s0]");
  EXPECT_EQ(contiguous_strides(Exprs{2, s0, 3}), (Exprs{3 * max(1, s0), 3, 1}));
  TensorMeta m = contiguous(DType::F32, cpu, {2, 3});
  m.strides = {1, 2};
  EXPECT_EQ(to_string(m), "f32[2, 3]{1, 2}");
  m = contiguous(DType::F32, {DeviceType::CUDA, 0}, {4});
  m.offset = 8;
  EXPECT_EQ(to_string(m), "f32[4]{1}+8@cuda:0");
}

}  // namespace
}  // namespace coil::sym
