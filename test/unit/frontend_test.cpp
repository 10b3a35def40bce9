#include "error_of.h"
#include "frontend/json.h"
#include "frontend/pickle.h"
#include "frontend/sympy.h"
#include "frontend/treespec.h"
#include "support/archive.h"
#include "support/file.h"
#include "sym/print.h"
#include "temporary_folder.h"

namespace coil::frontend {
namespace {

std::string parsed(const std::string& text) {
  sym::Context context;
  return sym::to_string(
      parse_srepr(text, [&](std::string_view name) { return context.symbol(name, sym::SymbolKind::Size); }));
}

const std::string s0 = "Symbol('s0', positive=True, integer=True)", s1 = "Symbol('s1', integer=True)";

TEST(Srepr, Integers) {
  EXPECT_EQ(parsed("Integer(-3)"), "-3");
  EXPECT_EQ(parsed("Add(" + s0 + ", Integer(1))"), "s0 + 1");
  EXPECT_EQ(parsed("Mul(Integer(-1), " + s0 + ")"), "-s0");
  EXPECT_EQ(parsed("Pow(" + s0 + ", Integer(2))"), "s0**2");
  EXPECT_EQ(parsed("FloorDiv(" + s0 + ", Integer(2))"), "FloorDiv(s0, 2)");
  EXPECT_EQ(parsed("Max(Integer(4), " + s0 + ", " + s1 + ")"), parsed("Max(" + s0 + ", Max(" + s1 + ", Integer(4)))"));
  EXPECT_EQ(parsed("PythonMod(" + s0 + ", Integer(3))"), "Mod(s0, 3)");
  EXPECT_EQ(parsed("Mul(Rational(1, 2), Mul(Integer(4), " + s0 + "))"), "2*s0");
}

TEST(Srepr, RelationsAndLogic) {
  EXPECT_EQ(parsed("true"), "1");
  EXPECT_EQ(parsed("StrictGreaterThan(" + s0 + ", Integer(3))"), parsed("StrictLessThan(Integer(3), " + s0 + ")"));
  EXPECT_EQ(parsed("Not(Equality(" + s0 + ", " + s1 + "))"), parsed("Unequality(" + s0 + ", " + s1 + ")"));
  EXPECT_EQ(parsed("And(true, GreaterThan(" + s0 + ", " + s1 + "))"), parsed("LessThan(" + s1 + ", " + s0 + ")"));
  const std::string at_most = "ExprCondPair(Integer(7), LessThan(" + s0 + ", Integer(3)))",
                    same = "ExprCondPair(" + s1 + ", Equality(" + s0 + ", Integer(9)))",
                    rest = "ExprCondPair(Integer(0), true)";
  EXPECT_EQ(parsed("Piecewise(" + at_most + ", " + same + ", " + rest + ")"),
            parsed("Where(LessThan(" + s0 + ", Integer(3)), Integer(7), Where(Equality(" + s0 + ", Integer(9)), " + s1 +
                   ", Integer(0)))"));
}

TEST(Srepr, RefusesWhatIsNoInteger) {
  auto error = [](const std::string& text) { return error_of([&] { parsed(text); }); };
  EXPECT_TRUE(has(error("Mul(Rational(1, 2), " + s0 + ")"), "is not known to be an integer"));
  EXPECT_TRUE(has(error("ToFloat(" + s0 + ")"), "is not known to be an integer"));
  EXPECT_TRUE(has(error("Pow(" + s0 + ", Integer(-1))"), "without rounding"));
  EXPECT_TRUE(has(error("Add(" + s0), "')'"));
  EXPECT_TRUE(has(error("Integer(99999999999999999999)"), "64 bits"));
  EXPECT_TRUE(has(error("Integer(1) Integer(2)"), "expected nothing more at position 10"));
  EXPECT_TRUE(has(error("Mod(" + s0 + ")"), "number of operands"));
  EXPECT_TRUE(has(error("Piecewise(ExprCondPair(Integer(1), Equality(" + s0 + ", " + s1 + ")))"),
                  "without a value for what is left"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_TRUE(has(error(deep), "nested deeper"));
}

TEST(Srepr, SingleSymbols) {
  EXPECT_EQ(srepr_symbol(s0), "s0");
  EXPECT_EQ(srepr_symbol("Add(" + s0 + ", Integer(1))"), "");
  EXPECT_EQ(srepr_symbol("Symbol('s"), "");
}

TEST(Json, ErrorsNameThePlace) {
  const JsonDocument d(R"({"a": [1, {"b": "x"}], "c": null, "f": 1.5, "inf": "-Infinity"})", "file.json");
  auto error = [&](const std::function<void(const Json&)>& f) { return error_of([&] { f(d.root()); }); };
  EXPECT_EQ(error([](const Json& j) { j["a"].items()[1]->operator[]("b").as_int(); }),
            "file.json: a[1].b: expected an integer of 64 bits, found \"x\"");
  EXPECT_EQ(error([](const Json& j) { j["a"]["b"]; }), "file.json: a: expected an object, found a list");
  EXPECT_EQ(error([](const Json& j) { j["z"]; }), "file.json: 'z' is missing");
  EXPECT_EQ(d.root().find("c"), nullptr);
  EXPECT_EQ(d.root()["inf"].as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(d.root()["f"].as_double(), 1.5);
  EXPECT_TRUE(has(error_of([] { JsonDocument("[1] 2", "x"); }), "x is no valid JSON (at byte"));
  EXPECT_TRUE(has(error_of([] { JsonDocument("", "x"); }), "no valid JSON"));
  EXPECT_TRUE(
      has(error_of([] { JsonDocument("[18446744073709551615]", "x").root().items()[0]->as_int(); }), "64 bits"));
}

TEST(TreeSpec, ContextsOfEveryKind) {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  auto paths = [&](const std::string& type, const std::string& context, int children,
                   const std::string& fields = "{}") {
    std::string list = leaf;
    for (int i = 1; i < children; ++i) list += ", " + leaf;
    const JsonDocument named(fields, "fields");
    return parse_treespec(
               R"([1, {"type": ")" + type + R"(", "context": )" + context + R"(, "children_spec": [)" + list + "]}]",
               &named.root())
        .paths();
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(paths("builtins.list", R"("null")", 2), (List{"0", "1"}));
  EXPECT_EQ(paths("builtins.dict", R"("[\"a\", 5]")", 2), (List{"a", "5"}));
  EXPECT_EQ(paths("collections.defaultdict", R"({"default_factory_name": "list", "dict_context": ["a"]})", 1),
            (List{"a"}));
  EXPECT_EQ(paths("collections.namedtuple", R"("m.Pair")", 2, R"({"m.Pair": {"field_names": ["l", "r"]}})"),
            (List{"l", "r"}));
  EXPECT_EQ(paths("m.State", R"("[[\"h\"], [\"c\"]]")", 1), (List{"h"}));
  EXPECT_EQ(paths("transformers.BaseModelOutput", R"("[\"last_hidden_state\", \"pooler_output\"]")", 2),
            (List{"last_hidden_state", "pooler_output"}));
  EXPECT_EQ(paths("collections.deque", R"("2")", 2), (List{"0", "1"}));
  EXPECT_TRUE(has(error_of([&] { parse_treespec("[2, " + leaf + "]", nullptr); }), "unknown protocol"));
}

/// The archive of `torch.save` around a pickle program.
std::string torch_save(const std::string& program, const std::string& storage = std::string(24, '\0')) {
  const TemporaryFolder folder;
  ArchiveWriter writer(folder / "a.pt");
  writer.add("archive/data.pkl", program);
  writer.add("archive/byteorder", "little");
  writer.add("archive/data/0", storage);
  writer.commit();
  return read_file(folder / "a.pt");
}

Pickle unpickle(const std::string& program) {
  auto bytes = std::make_shared<std::string>(torch_save(program));
  return Pickle::read_torch_save(Archive::from_bytes(
      {std::shared_ptr<std::byte>(bytes, reinterpret_cast<std::byte*>(bytes->data())), bytes->size()}, "a.pt"));
}

std::string pickle_error(const std::string& program) {
  return error_of([&] { unpickle(program); });
}

/// `_rebuild_tensor_v2(storage 0 of `count` floats, offset, (rows, 2), (2, 1), False, OrderedDict())`, as protocol 2
/// writes it.
std::string tensor_program(char count, char offset, char rows) {
  using namespace std::string_literals;
  return "\x80\x02"s + "ctorch._utils\n_rebuild_tensor_v2\n(" +
         "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK"s + count + "tQK" + offset + "K" +
         rows + "K\x02\x86K\x02K\x01\x86\x89" + "ccollections\nOrderedDict\n)RtR.";
}

TEST(Pickle, Tensors) {
  const Pickle pickle = unpickle(tensor_program(6, 2, 2));
  ASSERT_TRUE(pickle.root().is(PickleValue::Kind::Tensor));
  EXPECT_EQ(pickle.root().tensor.sizes, (Sizes{2, 2}));
  EXPECT_EQ(pickle.root().tensor.offset, 2);
  EXPECT_TRUE(has(pickle_error(tensor_program(6, 3, 2)), "reads element 6"));
  EXPECT_TRUE(has(pickle_error(tensor_program(7, 0, 2)), "fewer than its 7 elements need"));
}

TEST(Pickle, Containers) {
  using namespace std::string_literals;
  const Pickle pickle =
      unpickle("\x80\x02(K\x01J\xff\xff\xff\xff\x88N]q\x00(G\x3f\xf8\0\0\0\0\0\0e}(X\x01\0\0\0kK\x05ut."s);
  const auto& items = pickle.root().items;
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[1]->integer, -1);
  EXPECT_TRUE(items[2]->is(PickleValue::Kind::Bool));
  EXPECT_EQ(items[4]->items[0]->real, 1.5);
  EXPECT_EQ(items[5]->items[0]->text, "k");
}

TEST(Pickle, NothingIsRun) {
  using namespace std::string_literals;
  const Pickle pickle = unpickle(
      "\x80\x02"
      "cos\nsystem\nX\x04\0\0\0true\x85R."s);
  EXPECT_TRUE(pickle.root().is(PickleValue::Kind::Object));
  EXPECT_EQ(pickle.root().text, "os.system");
}

TEST(Pickle, MalformedProgramsAreErrors) {
  using namespace std::string_literals;
  EXPECT_TRUE(has(pickle_error("\x80\x02"), "truncated"));
  EXPECT_TRUE(has(pickle_error("\x80\x09."), "protocol 9"));
  EXPECT_TRUE(has(pickle_error("\x80\x02."), "stack is empty"));
  EXPECT_TRUE(has(pickle_error("\x80\x02t."), "no mark"));
  EXPECT_TRUE(has(pickle_error("\x80\x02X\xff\xff\xff\xff"
                               "a."),
                  "truncated"));
  EXPECT_TRUE(has(pickle_error("\x80\x02h\x05."), "memo 5 is not set"));
  EXPECT_TRUE(has(pickle_error("\x80\x02ios\nsystem\n."), "opcode 0x69 is not supported"));
  EXPECT_TRUE(has(pickle_error("\x80\x02"
                               "ctorch._utils\n_rebuild_sparse_tensor\n)R."),
                  "_rebuild_sparse_tensor (subclasses, quantized, sparse) are not supported"));
  std::string copies =
      "\x80\x02"
      "cbuiltins\ntuple\nq\x01(" +
      std::string(50'000, 'N') + "tq\x02";
  for (int i = 0; i < 50'000; ++i) copies += "h\x01h\x02\x85R";
  EXPECT_TRUE(has(pickle_error(copies + "."), "more than 1000000 values"));
  // A list that contains itself, and a deep nest: read, and freed without recursion.
  unpickle(
      "\x80\x02]q\x01h\x01"
      "a.");
  unpickle("\x80\x02)" + std::string(500'000, '\x85') + ".");
}

TEST(Pickle, EveryDamagedByteIsAnErrorOrHarmless) {
  const std::string program = tensor_program(6, 2, 2);
  for (std::size_t at = 0; at < program.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = program;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      EXPECT_EQ(pickle_error(damaged).find("internal error"), std::string::npos);
    }
}

}  // namespace
}  // namespace coil::frontend
