// Hand-written plans for the runtime's tests: slots by value, kernels compiled from text.
#pragma once
#include <filesystem>

#include "runtime/executor/executor.h"
#include "support/error.h"
#include "support/file.h"
#include "support/subprocess.h"

namespace coil::runtime {

/// A plan under construction.
struct PlanBuilder {
  Plan plan;

  Slot add(ShapeOp op, std::int64_t a = 0, std::int64_t b = 0, std::int64_t c = 0) {
    plan.shape_program.push_back({op, a, b, c});
    return static_cast<Slot>(plan.shape_program.size() - 1);
  }
  Slot constant(std::int64_t value) { return add(ShapeOp::Constant, value); }
  std::vector<Slot> constants(std::initializer_list<std::int64_t> values) {
    std::vector<Slot> slots;
    for (std::int64_t v : values) slots.push_back(constant(v));
    return slots;
  }
  BufferId buffer(Buffer b) {
    plan.buffers.push_back(std::move(b));
    return static_cast<BufferId>(plan.buffers.size() - 1);
  }
  std::uint32_t kernel(const std::string& symbol) {
    plan.kernels.push_back({symbol, "a test's kernel"});
    return static_cast<std::uint32_t>(plan.kernels.size() - 1);
  }
  void output(const std::string& name, View view) {
    plan.outputs.push_back({name, Output::Kind::Tensor, std::move(view)});
  }
};

/// The shared object of C++ `source`, compiled by g++.
inline std::vector<std::byte> compile_kernels(const std::string& source) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("coil_kernels_{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_file(folder / "kernels.cpp", source);
  const std::string command =
      fmt::format("g++ -std=c++20 -O1 -shared -fPIC -o {0}/kernels.so {0}/kernels.cpp", folder.string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  const std::string binary = read_file(folder / "kernels.so");
  std::filesystem::remove_all(folder);
  const auto bytes = std::as_bytes(std::span(binary));
  return {bytes.begin(), bytes.end()};
}

inline Tensor tensor_of(const std::vector<float>& values, Sizes sizes) {
  Tensor t = Tensor::empty(DType::F32, std::move(sizes));
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}

/// Elements in row-major order of the sizes, whatever the strides.
inline std::vector<float> values_of(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.numel()};
}

inline constexpr const char* kTestKernels = R"(
#include <cstdint>
extern "C" void scale(void* const* b, const int64_t* s, int64_t begin, int64_t end) {  // b[1] = b[0] * s[0]
  for (int64_t i = begin; i < end; ++i) ((float*)b[1])[i] = ((const float*)b[0])[i] * (float)s[0];
}
extern "C" void add(void* const* b, const int64_t*, int64_t begin, int64_t end) {  // b[2] = b[0] + b[1]
  for (int64_t i = begin; i < end; ++i) ((float*)b[2])[i] = ((const float*)b[0])[i] + ((const float*)b[1])[i];
}
)";

/// y = (x * 2) + (x * 3) for x f32[s0, 4], s0 at most 8: two temporaries, one output.
inline StoredProgram scaled_sum(std::int64_t most = 8) {
  PlanBuilder b;
  const Slot rows = b.add(ShapeOp::InputSize, 0, 0), four = b.constant(4), one = b.constant(1), zero = b.constant(0);
  const Slot elements = b.add(ShapeOp::Mul, rows, four), bytes = b.add(ShapeOp::Mul, elements, four);
  const Slot eight = b.constant(most), two = b.constant(2), three = b.constant(3), grain = b.constant(8);
  const std::string rule = "input 'x' must have at most " + std::to_string(most) + " rows";
  b.plan.checks.push_back({b.add(ShapeOp::Le, rows, eight), rule});
  b.plan.inputs.push_back({"x", DType::F32, {rows, four}, {four, one}});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId t0 = b.buffer({.kind = BufferKind::Temporary, .name = "t0", .bytes = bytes, .first = 0, .last = 2});
  const BufferId t1 = b.buffer({.kind = BufferKind::Temporary, .name = "t1", .bytes = bytes, .first = 1, .last = 2});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes});
  const std::uint32_t scale = b.kernel("scale"), add = b.kernel("add");
  b.plan.steps.push_back(KernelCall{scale, {x, t0}, {two}, elements, grain});
  b.plan.steps.push_back(KernelCall{scale, {x, t1}, {three}, elements, grain});
  b.plan.steps.push_back(KernelCall{add, {t0, t1, y}, {}, elements, grain});
  b.output("y", {y, DType::F32, {rows, four}, {four, one}, zero});
  static const std::vector<std::byte> kernels = compile_kernels(kTestKernels);
  return {std::move(b.plan), {}, {kernels}, kTestKernels};
}

}  // namespace coil::runtime
