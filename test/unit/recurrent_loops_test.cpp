// Layers of recurrent networks in training, and their gradients: loops over the steps give what the library's calls
// give, for one direction and for both at once.
#include <cmath>
#include <random>

#include "compiler/pipeline.h"
#include "frontend/graph_builder.h"

namespace coil {
namespace {

using fx::Node;
using ops::None;
using ops::Value;
using ops::Values;

constexpr std::int64_t kSteps = 5, kBatch = 3, kHidden = 6, kState = 4;

struct Case {
  const char* target;
  std::vector<Sizes> sizes;            ///< of the tensors among the arguments
  std::vector<const char*> rest = {};  ///< what follows them, but for the direction; null: none
  std::size_t results = 2;
};

const Sizes kStates = {kBatch, kState}, kCells = {kBatch, kHidden}, kSequence = {kSteps, kBatch, kHidden},
            kGates4 = {kSteps, kBatch, 4 * kHidden};

const Case kCases[] = {
    {"coil.lstm_training.default",
     {kGates4, kStates, kCells, {4 * kHidden, kState}, {4 * kHidden}, {kState, kHidden}},
     {},
     5},
    {"coil.lstm_backward.default",
     {{kSteps, kBatch, kState},
      kStates,
      kCells,
      kGates4,
      kSequence,
      kSequence,
      {4 * kHidden, kState},
      {kState, kHidden}},
     {},
     3},
    {"coil.gru_backward.default", {kSequence, kCells, kGates4, kSequence, {3 * kHidden, kHidden}}},
    {"coil.plain_backward.default", {kSequence, kCells, kSequence, {kHidden, kHidden}}, {"relu"}},
};

/// Three layers on shares of the program's inputs: the first two, which are both directions, go side by side, the third
/// by itself.
runtime::StoredProgram program_of(const Case& c, bool in_loops) {
  frontend::GraphBuilder b;
  std::vector<Node*> results;
  std::vector<Node*> inputs;
  for (std::size_t k = 0; k < c.sizes.size(); ++k)
    inputs.push_back(b.input(fmt::format("x{}", k), DType::F32, {c.sizes[k].begin(), c.sizes[k].end()}));
  for (const auto& [share, reverse] : {std::pair{1.0, false}, {-0.5, true}, {0.25, true}}) {
    Values args;
    for (Node* input : inputs) args.push_back(b.op("aten.mul.Scalar", {input, share}));
    for (const char* more : c.rest) args.push_back(more ? Value(std::string(more)) : Value(None{}));
    args.push_back(reverse);
    Node* made = b.op(c.target, std::move(args));
    for (std::size_t k = 0; k < c.results; ++k)
      results.push_back(b.op("aten.sin.default", {b.item(made, static_cast<std::int64_t>(k))}));
  }
  frontend::ExportedProgram program;
  program.module = b.build(std::move(results));
  CompileOptions options;
  if (in_loops) options.settings = {{"cuda.emulate", "true"}};
  return *compile_program(std::move(program), options).program;
}

TEST(RecurrentLoops, GiveWhatTheLibraryGives) {
  std::mt19937_64 random(5);
  for (const Case& c : kCases) {
    std::vector<Tensor> given;
    for (const Sizes& sizes : c.sizes) {
      Tensor t = Tensor::empty(DType::F32, sizes);
      for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(random() % 200) / 100 - 1;
      given.push_back(t);
    }
    runtime::Context by_library(runtime::Model::load(program_of(c, false))),
        in_loops(runtime::Model::load(program_of(c, true)));
    const std::vector<Tensor> want = by_library.run(given).outputs, got = in_loops.run(given).outputs;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k)
      for (std::int64_t i = 0; i < want[k].numel(); ++i)
        ASSERT_NEAR(got[k].data<float>()[i], want[k].data<float>()[i], 2e-5)
            << c.target << ", result " << k << ", element " << i;
  }
}

}  // namespace
}  // namespace coil
