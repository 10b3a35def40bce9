#include "inputs.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstdio>
#include <random>

#include "runtime/device/device.h"
#include "support/error.h"
#include "tensor/safetensors.h"

namespace coil::cli {
namespace {

std::string signature(const runtime::Plan& plan) {
  std::vector<std::string> lines;
  for (const runtime::Input& input : plan.inputs)
    if (!input.unused) lines.push_back(fmt::format("{}: {}", input.name, type_of(plan, input)));
  return lines.empty() ? "nothing" : fmt::format("{}", fmt::join(lines, ", "));
}

std::vector<Tensor> from_file(const runtime::Plan& plan, const std::filesystem::path& path) {
  Safetensors file = read_safetensors(path);
  std::vector<std::string> problems;
  std::vector<Tensor> inputs;
  for (const runtime::Input& input : plan.inputs) {
    auto found = file.tensors.extract(input.name);
    if (found.empty()) {
      if (!input.unused) problems.push_back(fmt::format("input {} is missing", input.name));
      inputs.emplace_back();
      continue;
    }
    const Tensor& given = inputs.emplace_back(std::move(found.mapped()));
    if (input.unused) continue;
    if (given.dtype != input.dtype)
      problems.push_back(
          fmt::format("input {} is {}, expected {}", input.name, short_name(given.dtype), short_name(input.dtype)));
    else if (given.rank() != input.sizes.size())
      problems.push_back(
          fmt::format("input {} has {} dimensions, expected {}", input.name, given.rank(), input.sizes.size()));
  }
  for (const auto& [name, tensor] : file.tensors) problems.push_back(fmt::format("the program has no input {}", name));
  if (!problems.empty())
    fail("{}: {}; the program expects {}", path.string(), fmt::join(problems, ", "), signature(plan));
  return inputs;
}

/// The size of a random input: constants as they are, the same free size wherever one is asked for.
std::int64_t random_size(const runtime::Plan& plan, runtime::Slot slot, const InputOptions& options) {
  const runtime::ShapeInstruction& i = plan.shape_program.at(slot);
  return i.op == runtime::ShapeOp::Constant ? i.a : options.dynamic_size;
}

/// f16 and bf16 from f32 by cutting bits: random values need no rounding.
std::uint16_t half_bits(float value, DType dtype) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::BF16) return static_cast<std::uint16_t>(bits >> 16);
  int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (exponent <= 0) return sign;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

void fill(Tensor& tensor, std::mt19937_64& random, const InputOptions& options) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<std::int64_t> integer(
      0, std::min<std::int64_t>(options.integer_bound - 1, size_of(tensor.dtype) == 1 ? 127 : INT16_MAX));
  for (std::int64_t i = 0, n = tensor.numel(); i < n; ++i) {
    switch (tensor.dtype) {
      case DType::F32: tensor.data<float>()[i] = static_cast<float>(normal(random)); break;
      case DType::F64: tensor.data<double>()[i] = normal(random); break;
      case DType::F16:
      case DType::BF16:
        tensor.data<std::uint16_t>()[i] = half_bits(static_cast<float>(normal(random)), tensor.dtype);
        break;
      case DType::Bool: tensor.data<std::uint8_t>()[i] = random() & 1; break;
      default: {
        if (!is_integral(tensor.dtype))
          fail("cannot make random values of {}; give --inputs", short_name(tensor.dtype));
        std::int64_t value = integer(random);
        // Little-endian.
        std::memcpy(tensor.data<std::byte>() + i * size_of(tensor.dtype), &value, size_of(tensor.dtype));
      }
    }
  }
}

std::vector<Tensor> at_random(const runtime::Plan& plan, const InputOptions& options) {
  fmt::print(stderr, "coil: no sample inputs in this model; random ones with --seed {}\n", options.seed);
  std::mt19937_64 random(options.seed);
  std::vector<Tensor> inputs;
  for (const runtime::Input& input : plan.inputs) {
    Sizes sizes;
    for (runtime::Slot slot : input.sizes) sizes.push_back(random_size(plan, slot, options));
    fill(inputs.emplace_back(Tensor::empty(input.dtype, sizes)), random, options);
  }
  return inputs;
}

/// A dense copy in memory of its own: the run may write to it.
Tensor own_copy(const Tensor& tensor) {
  if (!tensor.storage.data) return tensor;
  Tensor dense = tensor.contiguous(), copy = Tensor::empty(dense.dtype, dense.sizes);
  std::memcpy(copy.bytes(), dense.bytes(), static_cast<std::size_t>(dense.numel()) * size_of(dense.dtype));
  return copy;
}

}  // namespace

std::vector<Tensor> make_inputs(const ReadyProgram& program, const InputOptions& options) {
  const runtime::Plan& plan = program.model->plan();
  if (!options.file.empty()) return from_file(plan, options.file);
  if (program.sample_inputs.size() != plan.inputs.size()) return at_random(plan, options);
  std::vector<Tensor> inputs;
  for (const Tensor& sample : program.sample_inputs) inputs.push_back(own_copy(sample));
  return inputs;
}

std::vector<Tensor> to_device(const ReadyProgram& program, std::vector<Tensor> given) {
  if (program.model->plan().device == Device{}) return given;
  const auto queue = runtime::open_device(program.model->plan().device)->make_queue();
  const runtime::QueueScope scope(*queue);
  const runtime::Plan& plan = program.model->plan();
  std::vector<bool> elsewhere(given.size(), false);
  for (const runtime::Buffer& b : plan.buffers)
    if (b.kind == runtime::BufferKind::Input && b.place != 0) elsewhere[b.index] = true;
  for (Tensor& t : given) {
    if (t.rank() == 0 || t.numel() == 0 || elsewhere[static_cast<std::size_t>(&t - given.data())])
      continue;  // numbers may be sizes
    t = t.contiguous();
    const Tensor there{queue->allocate(static_cast<std::size_t>(t.numel()) * size_of(t.dtype)), t.dtype, t.sizes,
                       t.strides, 0};
    queue->copy(there, t);
    t = there;
  }
  queue->wait();
  return given;
}

std::map<std::string, Tensor> named_results(const runtime::Plan& plan, const runtime::RunResult& result,
                                            std::span<const Tensor> inputs) {
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i].kind != runtime::Output::Kind::None) named[plan.outputs[i].name] = result.outputs.at(i);
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].mutated) named[plan.inputs[i].name] = inputs[i];
  return named;
}

}  // namespace coil::cli
