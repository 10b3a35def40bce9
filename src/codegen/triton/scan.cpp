// Scans along one dimension: a program walks its rows from chunk to chunk and carries what stands before.
#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"
#include "codegen/triton/operations.h"

namespace coil::codegen {
namespace {

TritonCombine combine_of(ir::ScanKind kind, DType d) {
  switch (kind) {
    case ir::ScanKind::Sum: return triton_combine(ir::ReductionKind::Sum, d);
    case ir::ScanKind::Prod: return triton_combine(ir::ReductionKind::Prod, d);
    case ir::ScanKind::Max: return triton_combine(ir::ReductionKind::Max, d);
    case ir::ScanKind::Min: return triton_combine(ir::ReductionKind::Min, d);
    case ir::ScanKind::LogSumExp: return {"c_logaddexp", triton_identity(ir::ReductionKind::Max, d), triton_type(d)};
  }
  return {};
}

/// One chunk: `carry` is what stands before it, where there is more than one.
void scan_chunk(TritonBody& b, const Statement& s, const TritonCombine& c, bool carries) {
  std::string x = b.block_value(s.body, kBothDims);
  const std::string mask = b.mask(kAlongR);
  if (c.truth) x = fmt::format("tl.cast({}, {})", x, c.type);
  if (!mask.empty())
    x = fmt::format("tl.where({}, {}, tl.full({}, {}, {}))", mask, x, b.shape(kBothDims), c.identity, c.type);
  b.line("chunk = {}", x);
  b.line("scanned = tl.associative_scan(chunk, 1, {})", c.function);
  if (carries) {
    b.line("scanned = {}(carry, scanned)", c.function);
    b.line("carry = {0}(carry, tl.reduce(chunk, 1, {0})[:, None])", c.function);
  }
  b.store(s, c.truth ? "scanned != 0" : "scanned", kBothDims);
}

}  // namespace

Kernel triton_scan(TritonBody& b, const BlockShape& block) {
  const Statement& s = b.nest.statements[0];
  const LoopDim along = b.nest.inner[0];
  const TritonCombine c = combine_of(std::get<ir::Scan>(s.op->node).kind, s.body->dtype);
  const Expr rows = b.env().simplify(product_of(b.nest.outer));
  b.begin_x(rows, block.x);
  b.decode(b.nest.outer, "xindex");
  const auto chunk = [&](const std::string& start) {
    b.begin_r(along.size, block.r, start);
    b.decode(b.nest.inner, "rindex");
    scan_chunk(b, s, c, block.looped);
  };
  if (block.looped) {
    b.line("carry = tl.full({}, {}, {})", b.shape(kAlongX), c.identity, c.type);
    b.block(fmt::format("for start in range(0, {}, RBLOCK)", b.text(along.size)), [&] { chunk("start"); });
  } else {
    chunk("");
  }
  return b.finish({sym::ceil_div(rows, block.x), 1, 1}, block.warps, {{"XBLOCK", block.x}, {"RBLOCK", block.r}}, false);
}

}  // namespace coil::codegen
