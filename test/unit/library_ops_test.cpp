// The table of library operations: that it is whole, that calls are held to it, and what the views over calls say.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "error_of.h"
#include "library_ops/attention.h"
#include "library_ops/check.h"
#include "library_ops/convolutions.h"
#include "library_ops/docs.h"
#include "library_ops/table.h"
#include "runtime/device/library.h"
#include "wrapper/python/torch_ops_text.h"

namespace coil::library_ops {
namespace {

/// A call as the IR, the wrapper and plans have it; its operands are numbers here.
struct Call {
  std::string op;
  Attributes attributes;
  std::vector<int> inputs, outputs;
};

const std::string kGood = "no error";

std::string fault(const Call& call) {
  return error_of([&] { check_call(call); });
}

TEST(PostOps, TextAndValueAreOne) {
  for (const PostOpInfo& row : post_op_table()) {
    PostOp op{row.kind};
    if (row.count() > 0) op.a = 0.1;
    if (row.count() > 1) op.b = -1e-30;
    EXPECT_EQ(parse_post_op(to_string(op)), op) << row.name;
    EXPECT_EQ(to_string(op).substr(0, row.name.size()), row.name);
    EXPECT_EQ(info(row.kind).name, row.name);
  }
  EXPECT_EQ(to_string({PostOpKind::Clip, 0, 6}), "clip:0:6");
}

TEST(PostOps, FaultsAreNamed) {
  EXPECT_EQ(error_of([] { parse_post_op("cube"); }), "unknown post-operation 'cube'");
  EXPECT_EQ(error_of([] { parse_post_op("clip:1"); }), "post-operation 'clip:1' takes 2 numbers");
  EXPECT_EQ(error_of([] { parse_post_op("elu:x"); }), "post-operation 'elu:x': 'x' is no number");
}

TEST(PostOps, OneSetOfNumbersForEachAlgorithm) {
  const PostOp six{PostOpKind::Clip, 0, 6}, one{PostOpKind::Clip, 0, 1}, relu{PostOpKind::Relu},
      leaky{PostOpKind::LeakyRelu, 0.1}, hard{PostOpKind::HardSigmoid}, scale{PostOpKind::Scale, 2, 0};
  const auto together = [](std::vector<PostOp> post) { return may_stand_together(post); };
  EXPECT_TRUE(together({six, relu, six}));
  EXPECT_FALSE(together({six, one}));
  EXPECT_FALSE(together({relu, leaky}));
  EXPECT_FALSE(together({hard, scale}));
  EXPECT_FALSE(together({hard, six}));
}

TEST(PostOps, PythonHasEachThatTakesNumbersOnly) {
  const std::string text = wrapper::python_torch_ops(DeviceType::CPU, {"linear"});
  for (const PostOpInfo& row : post_op_table())
    EXPECT_EQ(text.find("    \"" + std::string(row.name) + "\": ") != text.npos,
              !row.reads_operand && !row.reads_result)
        << row.name;
}

TEST(LibraryOps, EntriesAreWhole) {
  for (const Descriptor& d : builtin()) {
    EXPECT_TRUE(d.sentence.ends_with(".")) << d.name;
    std::set<std::string> names;
    for (const AttributeInfo& a : d.attributes) {
      EXPECT_TRUE(names.insert(a.name).second) << d.name << " has " << a.name << " twice";
      EXPECT_TRUE(a.sentence.ends_with(".")) << d.name << " " << a.name;
    }
    for (const auto* list : {&d.operands, &d.results})
      for (const Operand& o : *list)
        EXPECT_TRUE(!o.when || names.contains(o.when->attribute)) << d.name << " " << o.name;
    EXPECT_EQ(d.traits.has(Trait::TakesPostOps), names.contains("post")) << d.name;
    EXPECT_EQ(d.traits.has(Trait::TakesPostOps), !d.post_ops.empty()) << d.name;
    EXPECT_TRUE(!d.traits.has(Trait::Assertion) || d.results.empty()) << d.name;
  }
}

TEST(LibraryOps, SomethingCarriesOutEach) {
  for (const Descriptor& d : builtin()) {
    const bool on_cpu = runtime::has_library_op(d.name), on_gpu = runtime::has_library_op(d.name, DeviceType::CUDA);
    const bool by_others = d.traits.has(Trait::Kernel) || d.traits.has(Trait::DeviceCopy);  // backends, the executor
    EXPECT_NE(on_cpu || on_gpu, by_others) << d.name;
  }
}

TEST(LibraryOps, WhatOneDeviceMayDoForAnother) {
  for (const char* op : {"linear", "convolution", "svd", "nonzero", "assert_finite"})
    EXPECT_TRUE(works_on_copies(op)) << op;
  for (const char* op : {"all_reduce", "wait_collective", "device_copy", "assert_aligned", "sort_tiles"})
    EXPECT_FALSE(works_on_copies(op)) << op;
}

TEST(LibraryOps, FaultsAreNamed) {
  EXPECT_EQ(fault({"lineal", {}, {0, 0}, {0}}), "there is no library operation 'lineal'");
  EXPECT_EQ(fault({"unique", {{"consequtive", std::int64_t{1}}}, {0}, {0, 0, 0, 0}}),
            "unique has no attribute 'consequtive'; its attributes are: consecutive");
  EXPECT_EQ(fault({"convolution", {{"groups", std::vector<std::int64_t>{1}}}, {0, 0}, {0}}),
            "attribute 'groups' of convolution is [1], which is no integer");
  EXPECT_EQ(fault({"all_bounded", {}, {0}, {0}}), "a call of all_bounded lacks attribute 'limit'");
  EXPECT_EQ(fault({"linear", {{"has_bias", std::int64_t{1}}}, {0, 0}, {0}}),
            "linear takes 3 operands in this call (x, weight, bias), but has 2");
  EXPECT_EQ(fault({"sort", {}, {0}, {0}}), "sort gives 2 results in this call (values, places), but has 1");
  EXPECT_EQ(fault({"matmul", {{"post", std::vector<std::string>{"cube"}}}, {0, 0}, {0}}),
            "unknown post-operation 'cube'");
}

TEST(LibraryOps, AttributesSayHowManyOperandsThereAre) {
  const std::vector<std::string> post{"relu", "add", "mul"};
  EXPECT_EQ(fault({"matmul", {{"post", post}}, {0, 0, 0, 0}, {0}}), kGood);
  EXPECT_EQ(fault({"matmul", {{"post", post}, {"nan", "flag"}}, {0, 0, 0, 0, 0}, {0}}), kGood);
  EXPECT_NE(fault({"matmul", {{"post", post}}, {0, 0, 0}, {0}}), kGood);
  EXPECT_EQ(fault({"recurrent", {{"mode", "lstm"}}, {0, 0, 0, 0}, {0, 0, 0}}), kGood);
  EXPECT_EQ(fault({"recurrent", {{"mode", "gru"}}, {0, 0, 0}, {0, 0}}), kGood);
  EXPECT_EQ(fault({"svd", {{"values_only", std::int64_t{1}}}, {0}, {0}}), kGood);
  EXPECT_EQ(fault({"attention", {}, {0, 0, 0}, {0, 0}}), kGood);
  EXPECT_EQ(fault({"attention", {}, {0, 0, 0}, {0, 0, 0}}),
            "attention gives 1 to 2 results in this call (y, logs?), but has 3");
  const Attributes first{{"digits", std::int64_t{4}}, {"digit", std::int64_t{0}}};
  const Attributes second{{"digits", std::int64_t{4}}, {"digit", std::int64_t{1}}};
  EXPECT_EQ(fault({"radix_pass", first, {0, 0}, {0, 0, 0}}), kGood);
  EXPECT_EQ(fault({"radix_pass", second, {0, 0, 0}, {0, 0, 0}}), kGood);
  EXPECT_NE(fault({"radix_pass", second, {0, 0}, {0, 0, 0}}), kGood);
}

TEST(LibraryOps, ViewsNameOperandsAndAttributes) {
  Call call{"linear", {{"has_bias", std::int64_t{1}}, {"weight_transposed", std::int64_t{1}}}, {10, 11, 12, 13}, {20}};
  const LinearCall linear(call);
  EXPECT_EQ(linear.x(), 10);
  EXPECT_EQ(linear.weight(), 11);
  EXPECT_EQ(linear.bias(), 12);
  EXPECT_EQ(linear.first_post_operand(), 3u);
  EXPECT_EQ(linear.result(), 20);
  EXPECT_EQ(linear.results_dimension(), 1u);
  EXPECT_FALSE(linear.n());
  const std::vector<PostOp> post{{PostOpKind::Clip, 0, 6}, {PostOpKind::Add}};
  linear.set_post(post);
  EXPECT_EQ(std::get<std::vector<std::string>>(call.attributes.at("post")),
            (std::vector<std::string>{"clip:0:6", "add"}));
  EXPECT_EQ(linear.post(), post);
  EXPECT_EQ(fault(call), kGood);
}

TEST(LibraryOps, AbsentAttributesHaveTheirDefaults) {
  const Call call{"convolution", {{"padding", std::vector<std::int64_t>{2}}}, {0, 0}, {0}};
  const ConvolutionCall convolution(call);
  EXPECT_EQ(convolution.groups(), 1);
  EXPECT_EQ(convolution.stride(2), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(convolution.padding_end(2), (std::vector<std::int64_t>{2, 2}));
  EXPECT_FALSE(convolution.transposed());
  EXPECT_FALSE(convolution.winograd_tile());
  EXPECT_EQ(convolution.nan(), "");
  const Call attends{"attention", {}, {0, 0, 0}, {0}};
  EXPECT_EQ(AttentionCall(attends).scale(), 1.0);
}

TEST(LibraryOps, AProcessDefinesItsOwn) {
  define({.name = "test.blend",
          .sentence = "x (1 - by) + y by.",
          .operands = {{"x", "any"}, {"y", "like x"}},
          .results = {{"z", "like x"}},
          .attributes = {Number{.name = "by", .sentence = "How much of y.", .presence = Presence::Required}}});
  EXPECT_EQ(fault({"test.blend", {{"by", 0.5}}, {0, 0}, {0}}), kGood);
  EXPECT_EQ(fault({"test.blend", {}, {0, 0}, {0}}), "a call of test.blend lacks attribute 'by'");
  EXPECT_EQ(fault({"test.blend", {{"by", 0.5}}, {0}, {0}}),
            "test.blend takes 2 operands in this call (x, y), but has 1");
  // Coil's own stay what they are.
  define({.name = "sort", .sentence = "", .open = true});
  EXPECT_FALSE(get("sort").open);
}

TEST(LibraryOps, CallSitesAreHeldToTheTable) {
  EXPECT_EQ(error_of([] { runtime::make_library_op("sort", {{"dimension", std::int64_t{0}}}); }),
            "sort has no attribute 'dimension'; its attributes are: dim, descending, stable, bits, first, middle");
}

/// The parameters of the function that stands for the operation in a Python program; empty where there is none.
std::string python_parameters(DeviceType device, const std::string& op) {
  const std::string text = wrapper::python_torch_ops(device, {op}), head = "def torch_" + op + "(";
  const auto begin = text.find(head);
  if (begin == text.npos) return "";
  std::istringstream words(text.substr(begin, text.find("):\n", begin) - begin));
  std::string line;  // parameters may stand on lines of their own
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST(LibraryOps, PythonFunctionsTakeTheAttributesOfTheTable) {
  for (const Descriptor& d : builtin())
    for (const DeviceType device : {DeviceType::CPU, DeviceType::CUDA}) {
      const std::string parameters = python_parameters(device, d.name);
      EXPECT_EQ(parameters.empty(), !wrapper::is_torch_op(device, d.name)) << d.name;
      if (parameters.empty() || parameters.find("**_") != parameters.npos) continue;
      for (const AttributeInfo& a : d.attributes) EXPECT_TRUE(coil::has(parameters, ", " + a.name)) << d.name;
    }
}

TEST(LibraryOps, ThePageIsMadeFromTheTable) {
  const std::filesystem::path page = std::filesystem::path(COIL_TEST_FOLDER).parent_path() / "docs/library_ops.md";
  if (std::getenv("COIL_WRITE_DOCS")) std::ofstream(page) << docs_page();
  std::stringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_EQ(text.str(), docs_page()) << "COIL_WRITE_DOCS=1 unit_tests --gtest_filter='LibraryOps.*' writes it anew";
}

}  // namespace
}  // namespace coil::library_ops
