// Small wrapper programs for tests: buffers by name, lines by name.
#pragma once
#include "sym/tensor_meta.h"
#include "wrapper/program.h"

namespace coil {

struct WrapperProgram : wrapper::Program {
  WrapperProgram() { env = std::make_shared<sym::ShapeEnv>(); }

  wrapper::BufferId buffer(const std::string& name, wrapper::BufferKind kind, const sym::Exprs& sizes,
                           DType dtype = DType::F32) {
    const auto id = static_cast<wrapper::BufferId>(buffers.size());
    buffers.push_back({name,
                       kind,
                       dtype,
                       {},
                       sizes,
                       sym::contiguous_strides(sizes),
                       sym::product(sizes) * static_cast<std::int64_t>(size_of(dtype)),
                       0});
    return id;
  }
  wrapper::BufferId input(const std::string& name, const sym::Exprs& sizes, DType dtype = DType::F32) {
    const wrapper::BufferId id = buffer(name, wrapper::BufferKind::Input, sizes, dtype);
    buffers[id].index = inputs.size();
    inputs.push_back({name, id});
    return id;
  }
  wrapper::BufferId temporary(const std::string& name, const sym::Exprs& sizes) {
    return buffer(name, wrapper::BufferKind::Temporary, sizes);
  }

  /// A kernel that reads `from` and writes `to`.
  void call(std::vector<wrapper::BufferId> from, wrapper::BufferId to, bool in_place = false) {
    wrapper::CallKernel c;
    if (kernels.empty()) {
      kernels.push_back({"coil_k", ""});
      lines.insert(lines.begin(), wrapper::DefineKernel{0});
    }
    for (wrapper::BufferId b : from) {
      c.buffers.push_back(b), c.written.push_back(false);
      if (in_place) c.in_place.emplace_back(b, to);
    }
    c.buffers.push_back(to), c.written.push_back(true);
    c.extent = 1;
    lines.emplace_back(std::move(c));
  }
  void returns(wrapper::BufferId b) {
    buffers[b].kind = wrapper::BufferKind::Output;
    outputs.push_back({"output", wrapper::View{b, buffers[b].dtype, buffers[b].sizes, buffers[b].strides, 0}});
  }
  template <class T>
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(lines.begin(), lines.end(), [](const wrapper::Line& l) { return std::holds_alternative<T>(l); }));
  }
};

}  // namespace coil
