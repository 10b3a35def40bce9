#include "ir/comm_buffers.h"

#include "library_ops/table.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::ir {
namespace {

/// The most bytes of one buffer. Ranges of sizes that nobody has thought about end far above.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

std::optional<std::string> device_refusal(Device device) {
  if (!device.is_meta()) return std::nullopt;  // whether the device's runtime shares memory is told when it is made
  return fmt::format("it lies on {}, where there is no memory", to_string(device));
}

std::optional<std::string> size_refusal(const Graph& graph, DType dtype, const Exprs& sizes, const Exprs& strides) {
  if (comm_bytes(*graph.env_ptr(), dtype, sizes, strides)) return std::nullopt;
  std::vector<std::string> texts;
  for (Expr e : sizes) texts.push_back(sym::to_string(e));
  return fmt::format("its size [{}] has no upper bound", fmt::join(texts, ", "));
}

std::optional<std::string> buffer_refusal(const Graph& graph, const Buffer& b, const CommBufferLayout& wanted) {
  if (b.layout.comm) {
    if (*b.layout.comm == wanted) return std::nullopt;
    return fmt::format("it is one of process group '{}' already", b.layout.comm->group);
  }
  if (b.kind == BufferKind::Input) return fmt::format("it is the input {}, whose memory is the caller's", b.name);
  if (b.kind == BufferKind::Constant) return fmt::format("it is the constant {}", b.name);
  if (b.is_output) return "it is handed to the caller";
  if (b.layout.fixed) return fmt::format("the layout of {} is settled by another use", b.name);
  return size_refusal(graph, b.layout.dtype, b.layout.sizes, b.layout.strides);
}

/// The call that makes the buffer a sum; null where there is none.
const Operation* sum_of(const Graph& graph, BufferId id) {
  const Buffer& b = graph.buffer(id);
  if (!b.layout.comm) return nullptr;
  for (OperationId writer : b.writers) {
    const Operation& op = graph.operations()[writer];
    const auto* call = std::get_if<Extern>(&op.node);
    if (call && library_ops::has(call->op, library_ops::Trait::PeerSum) && op.outs.at(0) == id) return &op;
  }
  return nullptr;
}

}  // namespace

std::string_view to_string(CommKind) { return "symmetric"; }

std::optional<std::int64_t> comm_bytes(const sym::ShapeEnv& env, DType dtype, const Exprs& sizes,
                                       const Exprs& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t size = env.bounds(sizes[d]).high, stride = env.bounds(strides[d]).high;
    if (size > kMostBytes || stride > kMostBytes) return std::nullopt;
    if (size <= 0) return 0;
    if (stride > 0 && size - 1 > kMostBytes / stride) return std::nullopt;
    last += (size - 1) * stride;
    if (last > kMostBytes) return std::nullopt;
  }
  return (last + 1) * static_cast<std::int64_t>(size_of(dtype));
}

bool is_peer_sum(const Graph& graph, BufferId id) { return sum_of(graph, id) != nullptr; }

BufferId peer_table(const Graph& graph, BufferId sum) {
  const Operation* const op = sum_of(graph, sum);
  COIL_CHECK(op, "{} is no sum over ranks", graph.buffer(sum).name);
  return op->outs.at(1);
}

std::optional<std::string> comm_buffer_refusal(const TensorBox& box, const CommBufferLayout& wanted) {
  StorageBox& s = *box.storage;
  if (auto refusal = device_refusal(s.device)) return refusal;
  if (s.realized()) return buffer_refusal(*s.graph, s.graph->buffer(*s.buffer), wanted);
  return size_refusal(*s.graph, s.dtype, s.sizes, s.strides);
}

std::optional<std::string> fresh_comm_buffer_refusal(const Graph& graph, BufferId id) {
  const Layout& l = graph.buffer(id).layout;
  if (auto refusal = device_refusal(l.device)) return refusal;
  return size_refusal(graph, l.dtype, l.sizes, l.strides);
}

void make_comm_buffer(Graph& graph, BufferId id, const CommBufferLayout& layout) {
  graph.buffer(id).layout.comm = layout;
  graph.buffer(id).layout.fixed = true;
}

BufferId realize_as_comm_buffer(const TensorBox& box, const CommBufferLayout& wanted) {
  if (const auto refusal = comm_buffer_refusal(box, wanted))
    fail("a value cannot become a communication buffer of process group '{}': {}", wanted.group, *refusal);
  const BufferId id = box.realize();
  make_comm_buffer(*box.storage->graph, id, wanted);
  return id;
}

}  // namespace coil::ir
