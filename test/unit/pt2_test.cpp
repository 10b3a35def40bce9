#include <nlohmann/json.hpp>

#include "pch.h"

#include "error_of.h"
#include "frontend/pt2.h"
#include "fx/text.h"
#include "support/archive.h"
#include "temporary_folder.h"

namespace coil::frontend {
namespace {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(COIL_TEST_FOLDER) / "fixtures" / (name + ".pt2");
}

std::string text_of(const fx::GraphModule& module) { return fx::to_string(module); }

/// A copy of a fixture with some entries rewritten, checksums right.
class Edited {
 public:
  explicit Edited(const std::string& name) : top_(name + "/"), archive_(Archive::open(fixture(name))) {
    for (const std::string& entry : archive_.names()) content_[entry] = archive_.read(entry).text();
  }
  Edited& set(const std::string& entry, std::string content) {
    content_[top_ + entry] = std::move(content);
    return *this;
  }
  Edited& remove(const std::string& entry) {
    content_.erase(top_ + entry);
    return *this;
  }
  Edited& replace(const std::string& entry, const std::string& from, const std::string& to) {
    std::string& text = content_.at(top_ + entry);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return *this;
  }
  Edited& program(const std::string& from, const std::string& to) { return replace("models/model.json", from, to); }
  ExportedProgram read() const {
    ArchiveWriter writer(folder_ / "edited.pt2");
    for (const auto& [name, content] : content_) writer.add(name, content);
    writer.commit();
    return read_pt2(folder_ / "edited.pt2");
  }
  std::string error() const {
    return error_of([&] { read(); });
  }

 private:
  TemporaryFolder folder_;
  std::string top_;
  Archive archive_;
  std::map<std::string, std::string> content_;
};

std::vector<std::string> paths(const std::vector<fx::Input>& inputs) {
  std::vector<std::string> paths;
  for (const auto& i : inputs) paths.push_back(i.path);
  return paths;
}

std::vector<std::string> paths(const std::vector<fx::Output>& outputs) {
  std::vector<std::string> paths;
  for (const auto& o : outputs) paths.push_back(o.path);
  return paths;
}

TEST(Pt2, ReadsTrainingIr) {
  const auto program = read_pt2(fixture("nested"));
  EXPECT_EQ(text_of(*program.module), R"(graph(s77: [1, 100] = 3):
    %p_lin_weight : f32[4, 8] = get_attr[target=lin.weight]
    %p_lin_bias : f32[4] = get_attr[target=lin.bias]
    %b_calls : f32[] = get_attr[target=calls]
    %x : f32[s77, 8] = placeholder[target=x]
    %state_h : f32[4] = placeholder[target=state_h]
    %sym_size_int_1 : s77 = call_function[target=aten.sym_size.int](args = (%x, 0), kwargs = {})
    %add_ : f32[] = call_function[target=aten.add_.Tensor](args = (%b_calls, 1), kwargs = {})
    %mul_ : f32[4] = call_function[target=aten.mul_.Tensor](args = (%state_h, 0.5), kwargs = {})
    %linear : f32[s77, 4] = call_function[target=aten.linear.default])"
                                      R"((args = (%x, %p_lin_weight, %p_lin_bias), kwargs = {})
    %sum_1 : f32[4] = call_function[target=aten.sum.dim_IntList](args = (%linear, [0]), kwargs = {})
    %add__1 : f32[4] = call_function[target=aten.add_.Tensor](args = (%mul_, %sum_1), kwargs = {})
    %linear_1 : f32[s77, 4] = call_function[target=aten.linear.default])"
                                      R"((args = (%x, %p_lin_weight, %p_lin_bias), kwargs = {})
    %tanh : f32[s77, 4] = call_function[target=aten.tanh.default](args = (%linear_1,), kwargs = {})
    %mul : f32[] = call_function[target=aten.mul.Tensor](args = (%add_, 1.0), kwargs = {})
    %add : s77 + 1 = call_function[target=_operator.add](args = (%sym_size_int_1, 1), kwargs = {})
    %copy__default : f32[] = call_function[target=aten.copy_.default](args = (%b_calls, %add_), kwargs = {})
    return (%tanh, %mul, %add)
input %x "x"
input %state_h "state.h"
output "y.0"
output "y.1"
output "n"
)");
  ASSERT_TRUE(program.sample_inputs.has_value());
  ASSERT_EQ(program.sample_inputs->size(), 2u);
  EXPECT_EQ(program.sample_inputs->at(0).sizes, (Sizes{3, 8}));
  EXPECT_EQ(program.sample_inputs->at(1).sizes, (Sizes{4}));
  EXPECT_TRUE(program.torch_version.starts_with("2."));
  const fx::Node* linear = program.module->graph.find("linear");
  EXPECT_EQ(linear->where(), "fixture_programs.py:31");
  EXPECT_EQ(linear->meta.module_path, "lin");
  EXPECT_EQ(linear->meta.origins, std::vector<std::string>{"linear"});
}

TEST(Pt2, ReadsMutationsAfterDecomposition) {
  const auto program = read_pt2(fixture("nested_dec"));
  const auto& mutations = program.module->mutations;
  ASSERT_EQ(mutations.size(), 2u);
  EXPECT_EQ(mutations[0].kind, fx::Mutation::Target::Attribute);
  EXPECT_EQ(mutations[0].target, "calls");
  EXPECT_EQ(mutations[0].output, 3u);
  EXPECT_EQ(mutations[1].kind, fx::Mutation::Target::Input);
  EXPECT_EQ(mutations[1].target, "state_h");
  EXPECT_EQ(mutations[1].output, 4u);
  EXPECT_EQ(program.module->graph.output()->args.size(), 5u);
}

TEST(Pt2, OtherLayoutsOfTheArchiveReadTheSame) {
  const std::string expected = text_of(*read_pt2(fixture("nested")).module);
  for (const char* name : {"deflated", "pickled", "legacy"}) {
    const auto program = read_pt2(fixture(name));
    EXPECT_EQ(text_of(*program.module), expected) << name;
    EXPECT_TRUE(program.sample_inputs.has_value()) << name;
  }
  for (const char* name : {"pickled", "legacy"})
    EXPECT_EQ(read_pt2(fixture(name)).module->attributes.at("lin.bias").data<float>()[3], 3.0f) << name;
}

TEST(Pt2, OtherVersionsOfTorchReadTheSame) {
  const std::pair<std::string, std::vector<std::string>> versions[] = {
      {"8", {"nested", "structure"}},
      {"11", {"nested", "nested_dec", "structure", "weights", "control", "arguments", "symbols"}}};
  for (const auto& [minor, names] : versions)
    for (const std::string& name : names) {
      SCOPED_TRACE(name + " of torch 2." + minor);
      const auto program = read_pt2(fixture(name + "_2_" + minor)), newest = read_pt2(fixture(name));
      EXPECT_EQ(text_of(*program.module), text_of(*newest.module));
      EXPECT_TRUE(program.torch_version.starts_with("2." + minor + ".")) << program.torch_version;
      EXPECT_TRUE(program.sample_inputs.has_value());
      ASSERT_EQ(program.module->attributes.size(), newest.module->attributes.size());
      for (const auto& [attribute, value] : program.module->attributes)
        EXPECT_EQ(value.sizes, newest.module->attributes.at(attribute).sizes);
    }
}

TEST(Pt2, WeightsOfTorch28) {
  // Its metadata have no offsets; the tensors themselves do.
  const auto program = read_pt2(fixture("weights_2_8")), newest = read_pt2(fixture("weights"));
  ASSERT_EQ(program.module->attributes.size(), newest.module->attributes.size());
  for (const auto& [attribute, value] : program.module->attributes)
    EXPECT_EQ(value.sizes, newest.module->attributes.at(attribute).sizes);
}

TEST(Pt2, SymbolsOfTorch28) {
  const auto program = read_pt2(fixture("symbols_2_8"));  // its own assertions are worded otherwise
  const auto& rows = program.module->graph.find("x")->tensor().sizes[0];
  EXPECT_EQ(program.module->env->hint(rows), 6);
  EXPECT_EQ(program.module->env->bounds(rows), (sym::Range{4, 128}));
  EXPECT_EQ(paths(program.module->outputs), paths(read_pt2(fixture("symbols")).module->outputs));
}

TEST(Pt2, NamesFollowTheStructure) {
  const auto program = read_pt2(fixture("structure"));
  const auto& module = *program.module;
  EXPECT_EQ(paths(module.inputs),
            (std::vector<std::string>{"a", "pair.left", "pair.right", "state.h", "state.c", "scale", "mode", "skip",
                                      "flag", "more.0.0", "more.0.1", "more.1.deep"}));
  EXPECT_EQ(paths(module.outputs),
            (std::vector<std::string>{"0.left", "0.right.0.h", "0.right.0.c", "1.k.2", "2", "3"}));
  EXPECT_FALSE(module.inputs[0].constant.has_value());
  EXPECT_EQ(module.inputs[5].constant, ops::Value(3));
  EXPECT_EQ(module.inputs[6].constant, ops::Value("sub"));
  EXPECT_EQ(module.inputs[7].constant, ops::Value(ops::None{}));
  EXPECT_EQ(module.inputs[8].constant, ops::Value(true));
  EXPECT_EQ(module.graph.output()->args[4], ops::Value(7));
  EXPECT_EQ(module.graph.output()->args[5], ops::Value(2.5));

  ASSERT_TRUE(program.sample_inputs.has_value());
  const auto& samples = *program.sample_inputs;
  ASSERT_EQ(samples.size(), 12u);
  EXPECT_EQ(samples[4].sizes, (Sizes{2}));
  EXPECT_EQ(*samples[5].data<std::int64_t>(), 3);
  EXPECT_EQ(samples[7].storage.data, nullptr);
  EXPECT_EQ(samples[8].dtype, DType::Bool);
}

TEST(Pt2, SymbolicSizes) {
  const auto program = read_pt2(fixture("symbols"));
  const auto& graph = program.module->graph;
  auto& env = *program.module->env;
  // The first dimension was declared as twice another, which occurs in no value by itself.
  const auto& rows = graph.find("x")->tensor().sizes[0];
  EXPECT_EQ(env.hint(rows), 6);
  EXPECT_EQ(env.bounds(rows), (sym::Range{4, 128}));
  EXPECT_EQ(sym::to_string(graph.find("unsqueeze")->tensor()).substr(0, 9), "f32[1, 4,");
  EXPECT_EQ(env.hint(graph.find("floordiv")->meta.value.as_int()), 5);
  EXPECT_EQ(env.hint(graph.find("sym_max")->meta.value.as_int()), 6);
  EXPECT_TRUE(graph.find("n")->meta.value.is<sym::Expr>());
}

TEST(Pt2, UnbackedSizesAndTheirAssertions) {
  const auto program = read_pt2(fixture("unbacked"));
  const auto size = program.module->graph.find("item")->meta.value.as_int();
  EXPECT_EQ(size.symbol_kind(), sym::SymbolKind::Unbacked);
  EXPECT_EQ(program.module->env->range(size), (sym::Range{2, 10}));
  EXPECT_TRUE(program.module->graph.find("ge_1")->meta.value.is<ops::Bool>());
}

TEST(Pt2, WeightsAreMappedAndSharedAsSaved) {
  const auto program = read_pt2(fixture("weights"));
  const auto& a = program.module->attributes;
  EXPECT_EQ(a.at("first.weight").storage.data, a.at("second.weight").storage.data);
  EXPECT_EQ(a.at("part").storage.data, a.at("turned").storage.data);
  EXPECT_EQ(a.at("part").offset, 6);
  EXPECT_EQ(a.at("part").data<float>()[0], 6.0f);
  EXPECT_EQ(a.at("turned").strides, (Sizes{1, 4}));
  EXPECT_EQ(a.at("hidden").data<std::int64_t>()[5], 5);
  EXPECT_EQ(a.at("lifted_tensor_0").data<std::int64_t>()[5], 13);
  EXPECT_EQ(a.at("narrow").dtype, DType::BF16);
  EXPECT_EQ(a.at("empty").sizes, (Sizes{0, 6}));
  EXPECT_EQ(a.at("constant").data<float>()[5], 6.0f);
}

TEST(Pt2, SeveralResultsAreGetitemNodes) {
  const auto program = read_pt2(fixture("results"));
  const auto& graph = program.module->graph;
  EXPECT_EQ(graph.find("max_1")->meta.value.as_list().size(), 2u);
  const fx::Node* item = graph.find("getitem_8");
  EXPECT_TRUE(item->is_call("_operator.getitem"));
  EXPECT_EQ(item->args[0].as_node(), graph.find("unbind"));
  EXPECT_EQ(item->args[1], ops::Value(1));
  EXPECT_EQ(item->tensor().sizes, (sym::Exprs{6}));
}

TEST(Pt2, ResultsWithoutUsersGetNoNode) {
  Edited edited("results");
  edited.program(R"({"as_tensor": {"name": "getitem_11"}})", R"({"as_tensor": {"name": "layer_norm_unused_2"}})")
      .program(R"("getitem_11": {)", R"("layer_norm_unused_2": {)");
  const auto program = edited.read();
  EXPECT_EQ(program.module->graph.find("layer_norm_unused_2"), nullptr);
  EXPECT_EQ(program.module->graph.find("native_layer_norm")->meta.value.as_list().size(), 3u);
}

TEST(Pt2, EveryKindOfArgument) {
  const std::string text = text_of(*read_pt2(fixture("arguments")).module);
  for (const char* part :
       {"(%x, %gt, -inf)", "(%unsqueeze, [None, %i])", R"({approximate: "tanh"})", "memory_format: channels_last",
        "(%empty_like, True)", "dtype: i32, layout: strided, device: cpu", "[2.0, 2.0]",
        "(%cat, [1, 2], True), kwargs = {dtype: f64}", R"({rounding_mode: "floor"})",
        "(%div, [%sym_size_int_1, 2, 3, 3])", R"(None, [1, 1], "same")", "(%gt_1, %x, nan)"})
    EXPECT_TRUE(has(text, part));
}

TEST(Pt2, NestedGraphs) {
  for (const char* name : {"control", "control_dec"}) {
    const auto program = read_pt2(fixture(name));
    const auto& graphs = program.module->subgraphs;
    ASSERT_TRUE(graphs.contains("true_graph_0") && graphs.contains("false_graph_0")) << name;
    EXPECT_EQ(graphs.at("false_graph_0")->env, program.module->env);
    EXPECT_EQ(graphs.at("false_graph_0")->graph.placeholders().size(), 2u);
    EXPECT_TRUE(program.module->graph.find("cond")->meta.value.is<ops::Values>()) << "a tuple of one";
    EXPECT_TRUE(has(text_of(*program.module), "higher_order.cond](args = (%gt, @true_graph_0, @false_graph_0, [%x, "));
  }
}

TEST(Pt2, UnsupportedOperatorsAreListedTogether) {
  const std::string error = error_of([] { read_pt2(fixture("custom")); });
  EXPECT_EQ(error,
            "2 operators are not supported: fixtures.twice.default (fixture_programs.py:173, 2 uses), "
            "fixtures.both.default (fixture_programs.py:173)");
  Edited dictionary("custom");
  dictionary.program("torch.ops.fixtures.both.default", "torch.ops.aten.add.Tensor")
      .program(R"({"as_int": 3})", R"({"as_string_to_argument": {}})");
  EXPECT_EQ(dictionary.error(),
            "2 operators are not supported: fixtures.twice.default (fixture_programs.py:173, 2 uses), aten.add.Tensor "
            "with a dictionary (fixture_programs.py:173)");
}

TEST(Pt2, MissingPartsAreNamed) {
  EXPECT_TRUE(has(error_of([] { read_pt2("nowhere.pt2"); }), "cannot open nowhere.pt2: No such file"));
  EXPECT_TRUE(has(error_of([] { read_pt2(std::filesystem::path(COIL_TEST_FOLDER) / "unit" / "pt2_test.cpp"); }),
                  "no zip directory"));
  EXPECT_TRUE(has(Edited("nested").remove("models/model.json").error(), "no exported program"));
  EXPECT_TRUE(
      has(Edited("nested").remove("data/weights/weight_0").error(), "has no entry 'nested/data/weights/weight_0'"));
  EXPECT_TRUE(
      has(Edited("nested").remove("data/weights/model_weights_config.json").error(), "no data for 'lin.weight'"));
  EXPECT_FALSE(Edited("nested").remove("data/sample_inputs/model.pt").read().sample_inputs.has_value());
  EXPECT_FALSE(Edited("nested").set("data/sample_inputs/model.pt", "").read().sample_inputs.has_value())
      << "saved with example_inputs = None";
  EXPECT_TRUE(has(Edited("nested").set("byteorder", "big").error(), "big-endian"));
}

TEST(Pt2, CustomObjectsAreRefusedByName) {
  Edited lifted("weights");
  lifted.program(R"({"tensor_constant": {"arg": {"name": "c_constant"}, "tensor_constant_name": "constant"}})",
                 R"({"custom_obj": {"arg": {"name": "c_constant", "class_fqn": "classes.vision.Sampler"}, )"
                 R"("custom_obj_name": "constant"}})");
  EXPECT_TRUE(has(lifted.error(),
                  "the program holds an object of class classes.vision.Sampler; custom objects are not supported"));
  Edited given("weights");
  given.program(R"({"as_tensor": {"name": "x"}}], "outputs")",
                R"({"as_custom_obj": {"name": "x", "class_fqn": "classes.vision.Sampler"}}], "outputs")");
  EXPECT_TRUE(has(given.error(), "inputs of class classes.vision.Sampler are not supported"));
}

TEST(Pt2, WrongJsonIsNamedByItsPlace) {
  EXPECT_TRUE(has(Edited("nested").set("models/model.json", "{\"a\": [1,").error(), "is no valid JSON"));
  EXPECT_TRUE(has(Edited("nested").set("models/model.json", std::string(100000, '[')).error(), "nested deeper"));
  EXPECT_TRUE(has(Edited("nested").set("models/model.json", R"({"a": 1, "a": 2})").error(), "'a' is there twice"));
  EXPECT_TRUE(has(Edited("nested").program(R"("target": "torch.ops.aten.add_.Tensor")", R"("target": 7)").error(),
                  "graph_module.graph.nodes[1].target: expected a string, found 7"));
  EXPECT_TRUE(has(Edited("nested").program(R"("as_int": 0}, "kind": 1)", R"("as_int": "0"}, "kind": 1)").error(),
                  "nodes[0].inputs[1].arg.as_int: expected an integer"));
  EXPECT_TRUE(has(Edited("nested").program(R"({"as_int": 0}, "kind": 1)", R"({"as_odd": 0}, "kind": 1)").error(),
                  "unknown kind of argument 'as_odd'"));
  EXPECT_TRUE(
      has(Edited("nested").program(R"("dtype": 7)", R"("dtype": 77)").error(), "element type 77 is not supported"));
  EXPECT_TRUE(
      has(Edited("nested").program(R"("major": 8)", R"("major": 9)").error(), "version 9 of the export schema"));
  EXPECT_TRUE(has(Edited("nested")
                      .program(R"("as_tensor": {"name": "x"}}, "kind")", R"("as_tensor": {"name": "tanh"}}, "kind")")
                      .error(),
                  "'tanh' is not defined here"));
  EXPECT_TRUE(has(Edited("nested")
                      .program(R"(Symbol('s77', positive=True, integer=True))",
                               R"(ToFloat(Symbol('s77', positive=True, integer=True)))")
                      .error(),
                  "is not known to be an integer"));
}

TEST(Pt2, WeightsThatDoNotFitAreRefused) {
  const std::string config = "data/weights/model_weights_config.json";
  EXPECT_TRUE(has(Edited("nested").set("data/weights/weight_0", "short").error(),
                  "tensor 'lin.weight': a tensor of 1 elements reads element"));
  EXPECT_TRUE(has(Edited("nested").replace(config, R"("as_int": 8}])", R"("as_int": 4611686018427387904}])").error(),
                  "overflow"));
  EXPECT_TRUE(has(Edited("nested").replace(config, R"("as_int": 8}])", R"("as_int": -8}])").error(), "negative size"));
  EXPECT_TRUE(has(Edited("nested")
                      .replace(config, R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})")
                      .error(),
                  "offset is negative"));
  EXPECT_TRUE(has(Edited("nested").replace(config, R"("as_int": 4}, {)", R"("as_int": 2}, {)").error(),
                  "but f32[4, 8] in its graph"));
}

/// Whatever the content, reading ends in an Error in the user's terms or in a program.
void expect_error_or_program(const Edited& edited, const std::string& what) {
  const std::string error = edited.error();
  EXPECT_EQ(error.find("internal error"), std::string::npos) << what << ": " << error;
}

TEST(Pt2, DamagedProgramsAreErrors) {
  const Archive archive = Archive::open(fixture("symbols"));
  const std::string program(archive.read("symbols/models/model.json").text());
  for (std::size_t at = 0; at < program.size(); at += 97)
    for (const char c : {'0', '"', '}', 'x', '-'}) {
      std::string damaged = program;
      damaged[at] = c;
      expect_error_or_program(Edited("symbols").set("models/model.json", damaged), fmt::format("'{}' at {}", c, at));
    }
}

/// Every value of a document, by its path.
void collect(const nlohmann::json& j, const nlohmann::json::json_pointer& at,
             std::vector<nlohmann::json::json_pointer>& all) {
  all.push_back(at);
  if (j.is_object())
    for (const auto& [key, value] : j.items()) collect(value, at / key, all);
  if (j.is_array())
    for (std::size_t i = 0; i < j.size(); ++i) collect(j[i], at / i, all);
}

TEST(Pt2, ValuesOfAnotherTypeAreErrors) {
  using nlohmann::json;
  const std::vector<json> others{nullptr,
                                 true,
                                 -1,
                                 std::numeric_limits<std::int64_t>::max(),
                                 0.5,
                                 "x",
                                 json::array(),
                                 json::object(),
                                 json::array({json::object()})};
  std::size_t turn = 0;
  for (const std::string name : {"nested_dec", "structure", "symbols", "results", "control", "unbacked"}) {
    const json program = json::parse(Archive::open(fixture(name)).read(name + "/models/model.json").text());
    std::vector<json::json_pointer> places;
    collect(program, json::json_pointer(), places);
    constexpr std::size_t kStride = 29;
    for (std::size_t i = 0; i < places.size(); i += kStride) {
      json changed = program;
      changed[places[i]] = others[turn++ % others.size()];
      expect_error_or_program(Edited(name).set("models/model.json", changed.dump()),
                              name + places[i].to_string() + " = " + changed[places[i]].dump());
      if (places[i].empty()) continue;
      changed = program;
      auto& parent = changed[places[i].parent_pointer()];
      if (parent.is_object())
        parent.erase(places[i].back());
      else
        parent.erase(std::stoul(places[i].back()));
      expect_error_or_program(Edited(name).set("models/model.json", changed.dump()),
                              name + " without " + places[i].to_string());
    }
  }
}

TEST(Pt2, DamagedPicklesAreErrors) {
  const Archive archive = Archive::open(fixture("structure"));
  const std::string entry = "structure/data/sample_inputs/model.pt";
  const std::string pickle(archive.read(entry).text());
  const std::size_t begin = pickle.find("data.pkl");
  for (std::size_t at = begin; at < pickle.size(); at += 13)
    for (const int bit : {0, 3, 7}) {
      std::string damaged = pickle;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      // The checksum within is wrong then; the pickle itself is damaged by frontend/pickle's own test.
      expect_error_or_program(Edited("structure").set("data/sample_inputs/model.pt", damaged),
                              fmt::format("bit {} of {}", bit, at));
    }
}

TEST(Pt2, DamagedArchivesAreErrors) {
  const std::string bytes = read_file(fixture("deflated"));
  const TemporaryFolder folder;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    write_file(folder / "damaged.pt2", std::string_view(damaged));
    const std::string error = error_of([&] { read_pt2(folder / "damaged.pt2"); });
    EXPECT_EQ(error.find("internal error"), std::string::npos) << at << ": " << error;
  }
  for (std::size_t size = 0; size < bytes.size(); size += 5) {
    write_file(folder / "cut.pt2", std::string_view(bytes).substr(0, size));
    EXPECT_NE(error_of([&] { read_pt2(folder / "cut.pt2"); }), "no error") << size;
  }
}

}  // namespace
}  // namespace coil::frontend
