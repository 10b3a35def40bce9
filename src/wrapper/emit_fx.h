// The wrapper IR as a torch.fx graph, in a Python file that builds it.
#pragma once
#include "wrapper/emitter.h"
#include "wrapper/python/file.h"

namespace coil::wrapper {

/// Defines `load()`, which makes a `torch.fx.GraphModule` whose `forward` takes the flat user inputs and gives the tuple of flat outputs.
/// Allocations are `torch.empty_strided`, views `aten.as_strided`, sizes arithmetic of `operator`, conditions `torch._assert`; kernels, library calls, checked inputs and frees are operators `coil_wrapper::…`
/// that work on fake tensors and proxies as well. Weights are buffers of the module.
class COIL_EMITTER_API FxEmitter : public Emitter {
 public:
  std::string emit(const Program&, const EmitOptions&) override;
  bool reads_packed_weights() const override { return false; }

 protected:
  // One for each kind of line: the nodes that it becomes.
  virtual void line(const DefineSymbol&);
  virtual void line(const Assert&);
  virtual void line(const DefineKernel&);
  virtual void line(const Allocate&);
  virtual void line(const Reuse&);
  virtual void line(const CallKernel&);
  virtual void line(const CallExtern&);
  virtual void line(const CallFallback&);
  virtual void line(const Free&);
  virtual void line(const ReadSymbol&);
  /// Refused: a graph has no blocks.
  virtual void line(const Control&);
  /// The node that calls a kernel; arguments are expressions. What a backend overrides that calls kernels in another way.
  virtual void kernel_call(const std::string& kernel, const std::string& reads, const std::string& writes, const std::string& scalars, const std::string& extent, std::int64_t grain, const std::string& failure,
                           const std::string& origins);
  /// Definitions that stand before `load`.
  virtual std::string definitions() { return ""; }

  PythonFile& file() { return *file_; }
  void statement(const std::string& text) { body_ += "    " + text + "\n"; }
  /// `NAME = node("NAME", ARGUMENTS)`; returns the name.
  std::string node(const std::string& wanted, const std::string& arguments);

 private:
  void inputs();
  void assign(const std::string& name, const std::string& arguments);
  std::string size(sym::Expr);
  std::string sizes(const sym::Exprs&);
  std::string compute(sym::Expr);
  std::string storage_offset(BufferId);
  std::string view(const View&);
  std::string views(const std::vector<View>&);
  std::string output(const Output&);

  PythonFile* file_ = nullptr;
  std::string body_;
  std::vector<std::string> given_;                      ///< names of the placeholders
  std::unordered_map<sym::Expr, std::string> values_;   ///< nodes that hold sizes
  std::map<BufferId, std::string> storage_offsets_;
};

}  // namespace coil::wrapper
