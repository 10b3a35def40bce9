#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>

#include "error_of.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_json.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

struct TemporaryFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("coil_package_test_{}", ::getpid());
  TemporaryFolder() { std::filesystem::create_directories(path); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

/// Without the wait for the disk that write_file takes.
void write_quickly(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

/// y = x + w, and w's other half through an aliasing constant; a state besides.
StoredProgram with_constants() {
  PlanBuilder b;
  const Slot four = b.constant(4), one = b.constant(1), zero = b.constant(0), bytes = b.constant(16);
  Tensor storage = tensor_of({1, 2, 3, 4, 5, 6}, {6});
  Tensor w = storage, v = storage, s = tensor_of({9, 9, 9, 9}, {4});
  w.sizes = v.sizes = {4};
  v.offset = 2;
  b.plan.model_name = "with constants";
  b.plan.inputs.push_back({"x", DType::F32, {four}, {one}});
  for (const char* name : {"w", "v", "s"})
    b.plan.constants.push_back({name, DType::F32, {4}, {1}, 16, 0, std::string_view(name) == "s"});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId cw = b.buffer({.kind = BufferKind::Constant, .index = 0, .name = "w"}),
                 cv = b.buffer({.kind = BufferKind::Constant, .index = 1, .name = "v"});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes}),
                 z = b.buffer({.kind = BufferKind::Output, .name = "z", .bytes = bytes});
  b.kernel("scale");
  b.kernel("add");
  b.plan.steps.push_back(KernelCall{1, {x, cw, y}, {}, four, one});
  b.plan.steps.push_back(KernelCall{1, {x, cv, z}, {}, four, one});
  ExternCall call{"linear", {{"has_bias", 0}, {"post", std::vector<std::string>{"relu", "clip:0:6"}}}, {}, {}};
  const std::vector<Slot> square = {four, one}, strides = {one, one};
  call.inputs = {{x, DType::F32, square, strides, zero}, {cw, DType::F32, {one, one}, {one, one}, zero}};
  call.outputs = {{y, DType::F32, square, strides, zero}};
  b.plan.steps.push_back(call);
  b.plan.steps.push_back(AssertCall{one, "one must hold"});
  b.output("y", {y, DType::F32, {four}, {one}, zero});
  b.output("z", {z, DType::F32, {four}, {one}, zero});
  b.plan.outputs.push_back({"f", Output::Kind::Float, {}, 0, HUGE_VAL});
  b.plan.outputs.push_back({"none", Output::Kind::None});
  return {std::move(b.plan), {w, v, s}, {compile_kernels(kTestKernels)}, kTestKernels};
}

TEST(Package, PlansSurviveTheirText) {
  Plan plan = with_constants().plan;
  // Attributes of every type, whatever operation has them.
  auto& attributes = std::get<ExternCall>(plan.steps[2]).attributes;
  attributes["alpha"] = 0.5;
  attributes["sizes"] = std::vector<std::int64_t>{1, 2};
  attributes["limits"] = std::vector<double>{-HUGE_VAL, 1.5};
  attributes["name"] = std::string("é\n");
  const std::string text = plan_to_json(plan);
  EXPECT_EQ(plan_to_json(plan_from_json(text)), text);
}

TEST(Package, RunsAfterALoad) {
  TemporaryFolder folder;
  const auto path = folder.path / "m.coil";
  save_package(with_constants(), path);
  const StoredProgram loaded = load_program(path, WeightCheck::Hash);
  EXPECT_EQ(loaded.constants[0].bytes() + 8, loaded.constants[1].bytes());  // what shared memory still does
  EXPECT_EQ(loaded.kernel_source, kTestKernels);
  Context context(Model::load_package(path));
  const Tensor in = tensor_of({1, 1, 1, 1}, {4});
  const RunResult result = context.run({{in}});
  // The linear call overwrites y with relu(x * 1).
  EXPECT_EQ(values_of(result.outputs[0]), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(values_of(result.outputs[1]), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(*result.outputs[2].data<double>(), HUGE_VAL);
}

TEST(Package, SameProgramSameBytes) {
  TemporaryFolder folder;
  const StoredProgram program = with_constants();
  save_package(program, folder.path / "a.coil");
  save_package(program, folder.path / "b.coil");
  save_package(load_program(folder.path / "a.coil"), folder.path / "c.coil");
  EXPECT_EQ(read_file(folder.path / "a.coil"), read_file(folder.path / "b.coil"));
  EXPECT_EQ(read_file(folder.path / "a.coil"), read_file(folder.path / "c.coil"));
}

TEST(Package, TruncatedFilesAreRefused) {
  TemporaryFolder folder;
  save_package(with_constants(), folder.path / "whole.coil");
  const std::string whole = read_file(folder.path / "whole.coil");
  for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 97) {
    write_quickly(folder.path / "cut.coil", std::string_view(whole).substr(0, length));
    EXPECT_THROW(load_program(folder.path / "cut.coil"), Error) << length;
  }
}

TEST(Package, FlippedBitsAreRefusedOrHarmless) {
  TemporaryFolder folder;
  save_package(with_constants(), folder.path / "whole.coil");
  const std::string whole = read_file(folder.path / "whole.coil");
  const std::string manifest = plan_to_json(load_program(folder.path / "whole.coil").plan);
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string altered = whole;
    const std::size_t bit = random() % (8 * whole.size());
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
    write_quickly(folder.path / "altered.coil", altered);
    try {
      const StoredProgram p = load_program(folder.path / "altered.coil", WeightCheck::Hash);
      EXPECT_EQ(plan_to_json(p.plan), manifest) << bit;  // padding and fields that nobody reads
    } catch (const Error&) {}
  }
}

TEST(Package, ErrorsNameTheFile) {
  TemporaryFolder folder;
  write_file(folder.path / "text.coil", "no package");
  for (const char* name : {"text.coil", "absent.coil"}) {
    try {
      load_program(folder.path / name);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
}

TEST(Package, ErrorsInThePlanNameTheFile) {
  TemporaryFolder folder;
  auto program = with_constants();
  program.plan.outputs[0].view.buffer = 99;
  save_package(program, folder.path / "broken.coil");
  EXPECT_EQ(error_of([&] {
              Model::load_package(folder.path / "broken.coil");
            }).find("cannot load package '" + (folder.path / "broken.coil").string() + "': the plan is broken: "),
            0u);
  program = with_constants();
  program.plan.kernels.push_back({"gone", "", ""});
  save_package(program, folder.path / "gone.coil");
  EXPECT_NE(
      error_of([&] { Model::load_package(folder.path / "gone.coil"); }).find("gone.coil': kernel 'gone' is in none"),
      std::string::npos);
}

/// {"x": input} and one more in a list that export fixed; results: (y, None, [z, f], none).
Signature a_signature() {
  auto leaf = [](std::int64_t i, std::string fixed = "") { return Structure{.leaf = i, .fixed = std::move(fixed)}; };
  Signature s;
  s.inputs = {
      "builtins.tuple", {"0", "1"}, {{"builtins.tuple", {"x"}, {leaf(0)}}, {"builtins.dict", {}, {}, R"("[]")"}}};
  s.outputs = {"fixtures.Four",
               {"a", "b", "c", "d"},
               {leaf(0), leaf(-1), {"builtins.list", {"0", "1"}, {leaf(1), leaf(2)}}, leaf(3)},
               R"({"k":[1,"é"]})"};
  return s;
}

TEST(Package, SignaturesTravel) {
  TemporaryFolder folder;
  StoredProgram program = with_constants();
  EXPECT_NE(plan_to_json(program.plan).find("\"version\":3"), std::string::npos);  // nothing in it is newer
  program.plan.signature = a_signature();
  program.provenance = "{}\n";
  const std::string text = plan_to_json(program.plan);
  EXPECT_NE(text.find("\"version\":5"), std::string::npos);
  EXPECT_EQ(plan_to_json(plan_from_json(text)), text);
  save_package(program, folder.path / "m.coil");
  const auto model = Model::load_package(folder.path / "m.coil");
  EXPECT_EQ(model->plan().signature->outputs.context, a_signature().outputs.context);
  EXPECT_EQ(model->provenance(), "{}\n");
}

TEST(Package, SignaturesThatDoNotFitAreRefused) {
  for (const std::function<void(Signature&)>& spoil : std::vector<std::function<void(Signature&)>>{
           [](Signature& s) { s.outputs.children[0].leaf = 1; },
           [](Signature& s) { s.outputs.children.pop_back(), s.outputs.keys.pop_back(); },
           [](Signature& s) { s.inputs.children[0].children[0].leaf = -1; },
           [](Signature& s) { s.inputs = s.inputs.children[0]; },
           [](Signature& s) { s.outputs.children[2].children[1].leaf = 99; }}) {
    StoredProgram program = with_constants();
    program.plan.signature = a_signature();
    spoil(*program.plan.signature);
    EXPECT_THROW(Model::load(std::move(program)), Error);
  }
}

TEST(Package, BracketsWithoutEndAreRefused) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text = R"({"format":"coil-plan","version":)";
    for (int i = 0; i < 1'000'000; ++i) text += open;
    EXPECT_THROW(plan_from_json(text), Error);
  }
}

TEST(Package, OtherVersionsThanThoseItReadsAreNamed) {
  TemporaryFolder folder;
  save_package(with_constants(), folder.path / "m.coil");
  const std::string whole = read_file(folder.path / "m.coil"),
                    text = plan_to_json(load_program(folder.path / "m.coil").plan);
  for (int version : {Plan::kOldestVersion - 1, Plan::kVersion + 1, 1 << 30}) {
    std::string other = text;
    other.replace(other.find("\"version\":3"), 11, fmt::format("\"version\":{}", version));
    EXPECT_TRUE(has(error_of([&] { plan_from_json(other); }),
                    fmt::format("it has version {}, but this runtime reads versions {} to {}; compile the model again",
                                version, Plan::kOldestVersion, Plan::kVersion)));
  }
  std::string other = text;
  other.replace(1, 0, "\"wings\":2,");
  EXPECT_TRUE(
      has(error_of([&] { plan_from_json(other); }), "it has a member 'wings', which this runtime does not know"));
}

TEST(Package, WrongTypesInThePlanAreRefused) {
  const std::string good = plan_to_json(with_constants().plan);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_NO_THROW(plan_from_json(good));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"version\":3", "\"version\":2"},
                                                        {"\"version\":3", "\"version\":99"},
                                                        {"\"dtype\":\"f32\"", "\"dtype\":\"f33\""},
                                                        {"\"first\":0", "\"first\":-1"},
                                                        {"\"first\":0", "\"first\":0.5"},
                                                        {"\"first\":0", "\"first\":99999999999"},
                                                        {"[\"const\"", "[\"constant\""},
                                                        {"\"steps\":[", "\"stops\":["},
                                                        {"\"mutated\":false", "\"mutated\":0"},
                                                        {"{", "["}})
    EXPECT_THROW(plan_from_json(with(from, to)), Error) << to;
}

}  // namespace
}  // namespace coil::runtime
