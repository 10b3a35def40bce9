#include "passes/wrapper/write_into_outputs.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "library_ops/products.h"
#include "library_ops/table.h"

namespace coil::wrapper {
namespace {

using library_ops::EpilogueCall;
using library_ops::PostOp;
using library_ops::Trait;
using target::Feature;

/// Whether the device's library adds what the result's memory holds to what this call computes. A call that may be made
/// again, or differently, when its values are known does not.
bool adds_to_memory(const target::Target& target, const CallExtern& call) {
  if (!library_ops::has(call.op, Trait::TakesPostOps) || library_ops::has(call.op, Trait::Kernel)) return false;
  const EpilogueCall epilogue(call);
  if (!epilogue.nan().empty() || epilogue.batch_invariant() || call.outputs.size() != 1) return false;
  // A convolution's library that does few operations does not do this one.
  return target.has(Feature::PostOps) &&
         !(target.has(Feature::FewPostOps) && library_ops::has(call.op, Trait::Convolution));
}

/// oneDNN's kernels for processors without AVX-512 add what the result's memory holds before anything else or not at
/// all, and what they do not take is left to its reference loops.
bool adds_behind_others(const target::Target& target) {
  return !target.device.is_host() || target.arch.starts_with("avx512");
}

/// The place of a post-operation that adds an operand which lies as the result does, and that of the operand among the
/// call's.
struct Addend {
  std::size_t post, input;
};

std::optional<Addend> addend_of(const target::Target& target, const CallExtern& call) {
  if (!adds_to_memory(target, call)) return std::nullopt;
  const EpilogueCall epilogue(call);
  // A bias that is no vector is itself an operand that is added.
  if (epilogue.has_bias() && epilogue.bias().sizes.size() != 1) return std::nullopt;
  const View& result = epilogue.result();
  const std::vector<PostOp> post = epilogue.post();
  for (std::size_t k = 0, at = epilogue.first_post_operand(); k < post.size(); ++k) {
    if (!post[k].takes_operand()) continue;
    const View& operand = call.inputs.at(at);
    const bool alike = operand.dtype == result.dtype && operand.sizes == result.sizes &&
                       operand.strides == result.strides && operand.offset == result.offset;
    if (post[k].kind == PostOp::Kind::Add && alike && (k == 0 || adds_behind_others(target)) &&
        std::ranges::count(call.inputs, operand.buffer, &View::buffer) == 1)
      return Addend{k, at};
    // A convolution whose operands the library does not take computes what begins with the first of them by itself.
    if (library_ops::has(call.op, Trait::Convolution)) return std::nullopt;
    ++at;
  }
  return std::nullopt;
}

/// The call with what its result's memory holds in the operand's place.
void add_to_memory(CallExtern& call, const Addend& addend) {
  std::vector<PostOp> post = EpilogueCall(call).post();
  post[addend.post] = {PostOp::Kind::Sum};
  EpilogueCall(call).set_post(post);
  call.inputs.erase(call.inputs.begin() + static_cast<std::ptrdiff_t>(addend.input));
}

class Uniter {
 public:
  Uniter(Program& p, const target::Target& target)
      : p_(p), target_(target), name_(p.buffers.size()), first_(p.buffers.size(), SIZE_MAX), last_(first_) {
    std::iota(name_.begin(), name_.end(), BufferId{0});
    for (std::size_t k = 0; k < p.lines.size(); ++k) {
      const Uses u = uses(p.lines[k]);
      for (const auto* side : {&u.reads, &u.writes})
        for (BufferId b : *side) {
          first_[b] = std::min(first_[b], k);
          last_[b] = k;
        }
    }
    const Exprs late = runtime_symbols(p);
    late_.insert(late.begin(), late.end());
  }

  void run() {
    // The last call first: what becomes a result's memory there is a result for the calls before.
    bool united = false;
    for (std::size_t k = p_.lines.size(); k-- > 0;) {
      if (const auto* call = std::get_if<CallKernel>(&p_.lines[k]))
        for (auto [from, to] : call->in_place) united = (into_result(to) && unite(from, name_[to], k)) || united;
      if (auto* call = std::get_if<CallExtern>(&p_.lines[k])) united = add_in_place(*call, k) || united;
    }
    if (!united) return;
    for (Line& l : p_.lines) rename_buffers(l, name_);
  }

 private:
  bool into_result(BufferId to) const { return p_.buffers[name_[to]].kind == BufferKind::Output; }

  bool add_in_place(CallExtern& call, std::size_t line) {
    const auto addend = addend_of(target_, call);
    if (!addend || !unite(call.inputs[addend->input].buffer, name_[call.outputs[0].buffer], line)) return false;
    add_to_memory(call, *addend);
    return true;
  }

  bool unite(BufferId from, BufferId to, std::size_t line) {
    const Buffer &value = p_.buffers[from], &result = p_.buffers[to];
    const bool may = name_[from] == from && value.kind == BufferKind::Temporary && !value.comm &&
                     (result.kind == BufferKind::Output || result.kind == BufferKind::Temporary) && !result.comm &&
                     from != to && first_[to] == line && last_[from] == line && first_[from] < line &&
                     !is_late(result.bytes) && p_.env->statically_known_equal(value.bytes, result.bytes);
    if (!may) return false;
    name_[from] = to;
    first_[to] = first_[from];
    return true;
  }

  bool is_late(Expr bytes) const {
    return std::ranges::any_of(sym::free_symbols(bytes), [&](Expr s) { return late_.contains(s); });
  }

  Program& p_;
  const target::Target& target_;
  std::vector<BufferId> name_;             ///< whose memory each buffer has
  std::vector<std::size_t> first_, last_;  ///< lines that touch each
  std::unordered_set<Expr> late_;          ///< symbols that data give, while the program runs
};

}  // namespace

void write_into_outputs(Program& p, const target::Target& target) {
  if (std::ranges::any_of(p.lines, [](const Line& l) { return std::holds_alternative<Control>(l); })) return;
  Uniter(p, target).run();
}

}  // namespace coil::wrapper
