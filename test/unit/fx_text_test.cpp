// Text IR: what it prints, that it reads back the same, and what it refuses.
#include <cmath>
#include <limits>

#include "frontend/graph_builder.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "support/error.h"

namespace coil::fx {
namespace {

using frontend::GraphBuilder;

/// Operators of the tests' own, so that they depend on no table.
void define_test_operators() {
  static bool once = [] {
    auto same = [](const ops::Call& c) -> Value { return c.tensor(0); };
    ops::define("fxtest::same(Tensor x, float p=0.5, *, str mode=\"none\", ScalarType? dtype=None) -> Tensor", same);
    ops::define("fxtest::pair(Tensor x) -> (Tensor, Tensor)",
                [](const ops::Call& c) -> Value { return Values{c.tensor(0), c.tensor(0)}; });
    ops::define("fxtest::size(Tensor x, int dim) -> SymInt",
                [](const ops::Call& c) -> Value { return c.tensor(0).sizes.at(1); });
    ops::define("fxtest::any(Other[] x) -> Tensor",
                [](const ops::Call&) -> Value { return sym::contiguous(DType::F32, {}, {1}); });
    ops::define("fxtest::refuse(Tensor x) -> Tensor", [](const ops::Call&) -> Value { fail("x must be rare"); });
    return true;
  }();
  (void)once;
}

void expect_round_trip(const std::string& text, PrintOptions options = {}) {
  std::unique_ptr<GraphModule> m = parse(text);
  m->graph.lint();
  EXPECT_EQ(to_string(*m, options), text);
}

TEST(FxText, PrintsWhatBuilderMade) {
  define_test_operators();
  GraphBuilder b;
  Expr s0 = b.size("s0", 3, {1, 100});
  Node* x = b.input("x", DType::F32, {s0, 16});
  Node* w = b.constant("lin.weight", Tensor::empty(DType::F32, {16}));
  Node* y = b.op("fxtest.same.default", {x, 0.25}, {{"mode", "tanh"}});
  Node* n = b.op("fxtest.size.default", {y, 0});
  Node* m = b.op("_operator.mul", {n, 2});
  Node* p = b.op("fxtest.pair.default", {y});
  Node* q = b.item(p, 1);
  auto module = b.build({q, w, m});
  EXPECT_EQ(to_string(*module),
            "graph(s0: [1, 100] = 3):\n"
            "    %x : f32[s0, 16] = placeholder[target=x]\n"
            "    %lin_weight : f32[16] = get_attr[target=lin.weight]\n"
            "    %same : f32[s0, 16] = call_function[target=fxtest.same.default](args = (%x, 0.25), kwargs = {mode: "
            "\"tanh\"})\n"
            "    %size : 16 = call_function[target=fxtest.size.default](args = (%same, 0), kwargs = {})\n"
            "    %mul : 32 = call_function[target=_operator.mul](args = (%size, 2), kwargs = {})\n"
            "    %pair : [f32[s0, 16], f32[s0, 16]] = call_function[target=fxtest.pair.default](args = (%same,), "
            "kwargs = {})\n"
            "    %getitem : f32[s0, 16] = call_function[target=_operator.getitem](args = (%pair, 1), kwargs = {})\n"
            "    return (%getitem, %lin_weight, %mul)\n");
  expect_round_trip(to_string(*module));
}

TEST(FxText, ReadsEveryConstructBack) {
  define_test_operators();
  expect_round_trip(
      "graph(s0: [1, 100] = 3, s1: [0, inf], u0: unbacked [-inf, inf], u1: unbacked [0, 7]):\n"
      "    %x : f32[s0, 2*s1 + 1]{2*s1 + 1, 1}+s0 + 4@cuda:1 = placeholder[target=\"odd name!\"]\n"
      "    %t : bf16[3, 4]{1, 3} = placeholder[target=t]\n"
      "    %s : f64[] = placeholder[target=s]\n"
      "    %b : b8[FloorDiv(s0, 4), Max(1, s1)] = get_attr[target=layer.0.mask]\n"
      "    %n : s0 + 1 = call_function[target=_operator.add](args = (s0, 1), kwargs = {})\n"
      "    %c : Bool(s0 <= 3) = call_function[target=_operator.lt](args = (s0, 4), kwargs = {})\n"
      "    %f : SymFloat(f) = call_function[target=_operator.truediv](args = (s0, 3), kwargs = {scale: -1.5})\n"
      "    %any : f32[1] = call_function[target=fxtest.any.default](args = ([1.0, -0.0, 1e-05, -2.5e+300, 0.1, "
      "3.4028234663852886e+38, inf, -inf, nan],), kwargs = {})\n"
      "    %any_1 : f32[1] = call_function[target=fxtest.any.default](args = ([None, True, False, -7, "
      "9223372036854775807, f32, i64, b8, cpu, cuda:2, cuda:0, meta],), kwargs = {})\n"
      "    %any_2 : f32[1] = call_function[target=fxtest.any.default](args = ([\"\", \"a \\\"b\\\" \\\\ # %x\", "
      "\"\\n\\t\\x01\", [[], [1, %x]], @true_graph],), kwargs = {})\n"
      "    %any_3 : f32[1] = call_function[target=fxtest.any.default](args = ([contiguous_format, preserve_format, "
      "channels_last, channels_last_3d, strided, sparse_coo],), kwargs = {})\n"
      "    %any_4 : f32[1] = call_function[target=fxtest.any.default](args = ([SymFloat(f), Bool(s0 <= 3), Where(s0 <= "
      "2, s0, 2), f32[2, s0]],), kwargs = {})\n"
      "    %call = call_function[target=torch.ops.higher_order.cond](args = (%c, @true_graph, @false_graph, [%x]), "
      "kwargs = {})\n"
      "    return (%any, %x, None, 3, %b)\n"
      "input %x \"state.h\"\n"
      "input %t \"t\" strides [4, 1]\n"
      "input %s \"k\" = 2.5\n"
      "output \"y.0\"\n"
      "output \"y.1\" any_strides\n"
      "output \"none\"\n"
      "mutation input x = 3\n"
      "mutation attribute layer.0.mask = 4\n"
      "subgraph false_graph:\n"
      "    graph():\n"
      "        %x : f32[s0] = placeholder[target=x]\n"
      "        return (%x,)\n"
      "subgraph true_graph:\n"
      "    graph():\n"
      "        %x : f32[s0] = placeholder[target=x]\n"
      "        return (%x,)\n"
      "    output \"answer\"\n");
  expect_round_trip("graph gradients():\n    return ()\n");
}

TEST(FxText, SizesWithNamesOfDtypes) {
  define_test_operators();
  const std::string text =
      "graph(f32: [1, 100] = 3, u8: unbacked [0, inf]):\n"
      "    %x : u8[u8, 2*f32] = placeholder[target=x]\n"
      "    %n : (f32) = call_function[target=_operator.add](args = ((u8), 1), kwargs = {})\n"
      "    %any : f32[1] = call_function[target=fxtest.any.default](args = ([(u8), u8, [f32, (f32)], u8 + 1, u8[u8], "
      "Bool(u8 <= 3), 2*f32],), kwargs = {})\n"
      "    return (%any, (u8))\n";
  expect_round_trip(text);
  const auto module = parse(text);
  EXPECT_TRUE(module->graph.output()->args[1].is<sym::Expr>());
  const ops::Values& list = module->graph.find("any")->args[0].as_list();
  EXPECT_TRUE(list[0].is<sym::Expr>() && list[1].is<DType>());
}

TEST(FxText, LocationsAndOrigins) {
  define_test_operators();
  expect_round_trip(
      "graph():\n"
      "    %x : f32[2] = placeholder[target=x]  # from x\n"
      "    %y : f32[2] = call_function[target=fxtest.same.default](args = (%x,), kwargs = {})  # at model.py:12  # "
      "from a, b\n"
      "    return (%y,)\n",
      {.locations = true, .origins = true});
}

TEST(FxText, FloatsKeepEveryBit) {
  for (double d : {1.0 / 3, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), -0.0, 1e16,
                   123456789.0}) {
    std::string text = fmt::format("graph():\n    return ({},)\n", ops::to_string(d));
    double back = *parse(text)->graph.output()->args[0].get_if<double>();
    EXPECT_EQ(back, d);
    EXPECT_EQ(std::signbit(back), std::signbit(d));
  }
}

TEST(FxText, FaultsNameLineAndColumn) {
  define_test_operators();
  auto message = [](const std::string& text) -> std::string {
    try {
      parse(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message("graph():\n    return (%x,)\n"), "line 2, column 14: no node is named %x");
  EXPECT_EQ(message("graph():\n    %x = placeholder[target=x]\n    %x = placeholder[target=x]\n    return ()"),
            "line 3, column 6: %x is defined twice");
  EXPECT_EQ(message("graph(s0: [1, 3]):\n    %x : f32[s1] = placeholder[target=x]\n    return ()").substr(0, 18),
            "line 2, column 14:");
  for (const char* text : {
           "",
           "graph",
           "graph(",
           "graph()",
           "graph():",
           "graph():\n    return (",
           "graph():\n    return ()\nmore",
           "graph(Min: [0, 1]):\n    return ()",
           "graph(s0: [3, 1]):\n    return ()",
           "graph(s0: [0, 1], s0: [0, 1]):\n    return ()",
           "graph():\n    return (\"abc)\n",
           "graph():\n    return (\"\\q\",)\n",
           "graph():\n    return (1e999,)\n",
           "graph():\n    %x : f32[2]{1, 2} = placeholder[target=x]\n    return ()",
           "graph():\n    %y = call_function[target=fxtest.same.default](args = (), kwargs = {})\n    return ()",
           "graph():\n    return (1,)\nmutation input x = 1\n",
           "graph():\n    return (1,)\noutput \"a\"\noutput \"b\"\n",
           "graph():\n    return (1, 2)\ninput %x \"x\"\n",
       })
    EXPECT_THROW(parse(text), Error) << text;
}

TEST(GraphBuilder, RefusesWhatIsWrong) {
  define_test_operators();
  GraphBuilder b;
  Node* x = b.input("x", DType::F32, {2});
  EXPECT_THROW(b.input("x", DType::F32, {2}), Error);
  EXPECT_THROW(b.op("aten.no_such_thing.default", {x}), Error);
  EXPECT_THROW(b.op("fxtest.same.default", {}), Error);
  EXPECT_THROW(b.op("fxtest.refuse.default", {x}), Error);
  EXPECT_THROW(b.item(x, 0), Error);
  EXPECT_THROW(b.size("Min"), Error);
  EXPECT_EQ(b.build({x})->graph.size(), 2u);
}

TEST(FxInfer, ScalarFunctions) {
  define_test_operators();
  GraphBuilder b;
  Expr s = b.size("s0", 5);
  auto value = [&](std::string_view target, Values args) { return b.op(target, std::move(args))->meta.value; };
  EXPECT_EQ(value("_operator.floordiv", {s, 2}), Value(sym::floor_div(s, 2)));
  EXPECT_EQ(value("_operator.floordiv", {-7, 2}), Value(-4));
  EXPECT_EQ(value("_operator.mod", {-7.0, 2}), Value(1.0));
  EXPECT_EQ(value("_operator.pow", {s, 2}), Value(s * s));
  EXPECT_EQ(value("_operator.pow", {2, -1}), Value(0.5));
  EXPECT_EQ(value("_operator.ge", {s, 4}), Value(ops::Bool{sym::ge(s, 4)}));
  EXPECT_EQ(value("torch.sym_max", {s, 4}), Value(sym::max(s, 4)));
  EXPECT_EQ(value("torch.sym_not", {true}), Value(false));
  EXPECT_EQ(value("torch.sym_ite", {true, 1, 2.0}), Value(1));
  EXPECT_EQ(value("math.ceil", {2.5}), Value(3));
  EXPECT_EQ(value("math.trunc", {-2.5}), Value(-2));
  EXPECT_TRUE(value("_operator.truediv", {s, 2}).is<ops::SymFloat>());
  EXPECT_THROW(value("_operator.add", {s}), Error);
  EXPECT_THROW(value("_operator.add", {s, "one"}), Error);
}

TEST(FxGraph, EditsKeepUsersInStep) {
  define_test_operators();
  GraphBuilder b;
  Node* x = b.input("x", DType::F32, {2});
  Node* a = b.op("fxtest.same.default", {x});
  Node* c = b.op("fxtest.same.default", {a});
  Node* dead = b.op("fxtest.same.default", {a});
  EXPECT_EQ(dead->name, "same_2");
  auto m = b.build({c});
  EXPECT_EQ(a->users().size(), 2u);
  a->replace_all_uses_with(x);
  m->graph.lint();
  EXPECT_TRUE(a->users().empty());
  EXPECT_EQ(m->graph.eliminate_dead_code(), 2u);
  m->graph.lint();
  {
    InsertBefore here(c);
    Node* made = m->graph.call("fxtest.same.default", {x, 0.5, "none", ops::None{}}, "same_1");
    EXPECT_EQ(made->next(), c);
    c->set_arg(0, made);
  }
  m->graph.lint();
  EXPECT_THROW(m->graph.erase(x), Error);
  c->meta.stack_trace =
      "File \"/home/me/model.py\", line 7, in forward\n    y = f(x)\n  File "
      "\"/v/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    return";
  EXPECT_EQ(c->where(), "model.py:7");
}

TEST(FxGraph, ErasedNodesAreCallsOfNothing) {
  define_test_operators();
  GraphBuilder b;
  Node* x = b.input("x", DType::F32, {2});
  Node* first = b.op("fxtest.same.default", {x});
  Node* second = b.op("fxtest.same.default", {x});
  Node* third = b.op("fxtest.same.default", {second});
  auto m = b.build({first});
  // Whoever walks over a snapshot may erase nodes that are still to come, and make new ones.
  std::vector<Node*> met;
  for (Node* n : m->graph.nodes()) {
    met.push_back(n);
    if (n != first) continue;
    m->graph.erase(third);
    m->graph.erase(second);
    InsertBefore here(m->graph.output());
    m->graph.call("fxtest.same.default", {x, 1.0, "none", ops::None{}});
  }
  EXPECT_EQ(met, (std::vector<Node*>{x, first, m->graph.output()}));
  EXPECT_TRUE(second->erased());
  EXPECT_FALSE(second->is_call("fxtest.same.default"));
  EXPECT_TRUE(second->op == nullptr && second->args.empty() && second->users().empty());
  EXPECT_THROW(m->graph.erase(second), Error);
  EXPECT_EQ(x->users().size(), 2u);
  m->graph.lint();
}

}  // namespace
}  // namespace coil::fx
