#include "coil/coil.h"
#include "runtime/executor/executor.h"
#include "support/error.h"
#include "tensor/safetensors.h"

namespace coil {
namespace {

Array to_array(const Tensor& t) {
  Array a;
  if (t.storage.data) a.data = std::shared_ptr<void>(t.storage.data, t.bytes());
  a.dtype = torch_name(t.dtype);
  a.sizes = t.sizes;
  a.strides = t.strides;
  return a;
}

Tensor to_tensor(const Array& a) {
  const auto dtype = dtype_from_torch_name(a.dtype);
  if (!dtype) fail("unknown dtype '{}'", a.dtype);
  Tensor t;
  t.dtype = *dtype;
  t.sizes = a.sizes;
  t.strides = a.strides.empty() && !a.sizes.empty() ? contiguous_strides(a.sizes) : a.strides;
  std::int64_t last = 0;
  for (std::size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
  t.storage.data = std::shared_ptr<std::byte>(a.data, static_cast<std::byte*>(a.data.get()));
  t.storage.bytes = t.numel() == 0 ? 0 : static_cast<std::size_t>(last + 1) * size_of(*dtype);
  return t;
}

/// Size slots that hold the same value whatever the inputs; -1 for others.
std::vector<std::int64_t> constant_sizes(const runtime::Plan& plan, const std::vector<runtime::Slot>& slots) {
  std::vector<std::int64_t> out;
  for (runtime::Slot s : slots) {
    const runtime::ShapeInstruction& i = plan.shape_program[s];
    out.push_back(i.op == runtime::ShapeOp::Constant ? i.a : -1);
  }
  return out;
}

std::string output_dtype(const runtime::Output& o) {
  switch (o.kind) {
    case runtime::Output::Kind::Tensor: return std::string(torch_name(o.view.dtype));
    case runtime::Output::Kind::Int: return "int64";
    case runtime::Output::Kind::Bool: return "bool";
    case runtime::Output::Kind::Float: return "float64";
    case runtime::Output::Kind::None: break;
  }
  return "";
}

}  // namespace

struct Model::Impl {
  std::shared_ptr<const runtime::Model> model;
  CompileReport report;
  std::vector<Port> inputs, outputs;
  std::unique_ptr<runtime::Context> context;

  Impl(std::shared_ptr<const runtime::Model> m, CompileReport r)
      : model(std::move(m)), report(std::move(r)), context(std::make_unique<runtime::Context>(model)) {
    const runtime::Plan& plan = model->plan();
    for (const runtime::Input& i : plan.inputs)
      inputs.push_back({i.name, std::string(torch_name(i.dtype)), constant_sizes(plan, i.sizes), i.mutated});
    for (const runtime::Output& o : plan.outputs)
      outputs.push_back({o.name, output_dtype(o), constant_sizes(plan, o.view.sizes), false});
  }
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(const Model& other) : impl_(std::make_unique<Impl>(other.impl_->model, other.impl_->report)) {}
Model& Model::operator=(const Model& other) { return *this = Model(other); }
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::load(const std::filesystem::path& path, const CompileOptions& options) {
  if (options.threads > 0) runtime::set_threads(options.threads);
  if (path.extension() == ".pt2") {
    Compiled compiled = compile(path, options);
    return Model(
        std::make_unique<Impl>(runtime::Model::load(std::move(*compiled.program)), std::move(compiled.report)));
  }
  auto model = runtime::Model::load_package(path);
  CompileReport report;
  report.kernels = static_cast<int>(model->plan().kernels.size());
  for (const runtime::Step& s : model->plan().steps)
    report.extern_calls += std::holds_alternative<runtime::ExternCall>(s);
  for (const runtime::Constant& c : model->plan().constants) report.weight_bytes += c.bytes;
  return Model(std::make_unique<Impl>(std::move(model), std::move(report)));
}

const std::vector<Port>& Model::inputs() const { return impl_->inputs; }
const std::vector<Port>& Model::outputs() const { return impl_->outputs; }
const CompileReport& Model::report() const { return impl_->report; }

std::vector<Array> Model::run(const std::vector<Array>& inputs) {
  std::vector<Tensor> tensors;
  for (const Array& a : inputs) tensors.push_back(to_tensor(a));
  std::vector<Array> out;
  for (const Tensor& t : impl_->context->run(tensors).outputs)
    out.push_back(to_array(t.storage.data ? impl_->context->to_host(t) : t));
  return out;
}

void Model::seed(std::uint64_t seed) { impl_->model->seed(seed); }

std::map<std::string, Array> read_arrays(const std::filesystem::path& path) {
  std::map<std::string, Array> out;
  for (const auto& [name, t] : read_safetensors(path).tensors) out.emplace(name, to_array(t));
  return out;
}

}  // namespace coil
