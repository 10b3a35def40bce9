// The wrapper IR as a torch.fx graph, in a Python file that builds it.
#pragma once
#include "wrapper/python/program.h"

namespace coil::wrapper {

/// Defines `load()`, which makes a `torch.fx.GraphModule` whose `forward` takes the flat user inputs and gives the
/// tuple of flat outputs. Allocations are `aten.new_empty_strided` (`torch.empty_strided` in a program without
/// tensors), views `aten.as_strided`, sizes arithmetic of `operator`, conditions `torch._assert`; kernels, library
/// calls, checked inputs and frees are operators `coil_wrapper::…` that work on fake tensors and proxies as well.
/// Weights are parameters of the module.
class COIL_EXTENSION_API FxEmitter : public PythonProgram {
 protected:
  using PythonProgram::line;
  void line(const DefineSymbol&) override;
  void line(const Assert&) override;
  void line(const Allocate&) override;
  void line(const Reuse&) override;
  void line(const CallKernel&) override;
  void line(const CallExtern&) override;
  void line(const CallFallback&) override;
  void line(const CallUserKernel&) override;
  void line(const Free&) override;
  void line(const AllocateComm&) override;
  void line(const FreeComm&) override;
  void line(const ReadSymbol&) override;
  void line(const SetSymbol&) override;
  /// Blocks are graphs of their own, in `higher_order.cond` and `higher_order.while_loop`.
  void line(const Control&) override;
  /// Nodes know their part: `node.meta["part"]`.
  void line(const BeginPart&) override;
  void line(const EndPart&) override;
  /// The node that calls a kernel; arguments are expressions. What a backend overrides that calls kernels in another
  /// way.
  virtual void kernel_call(const std::string& kernel, const std::string& reads, const std::string& writes,
                           const std::string& scalars, const std::string& extent, std::int64_t grain,
                           const std::string& failure, const std::string& origins);
  /// The call of a kernel on a GPU. `maps`: descriptors of tensors, of each its pointer's place, offset, element,
  /// swizzle, number of dimensions, sizes, strides and box one after another; empty where it takes none. `failure`: the
  /// statuses and the kernel's place among them, empty where it has none.
  virtual void kernel_launch(const std::string& kernel, const std::string& reads, const std::string& writes,
                             const std::string& scalars, const std::string& grid, int block,
                             const std::string& shared_bytes, const std::string& maps, const std::string& failure,
                             const std::string& origins);
  /// `NAME = node("NAME", ARGUMENTS, type="TYPE")`, the type where one is known; returns the name.
  std::string node(const std::string& wanted, const std::string& arguments, const std::string& type = "");

 private:
  const char* language() const override { return "fx"; }
  const char* usage() const override {
    return "load() makes a torch.fx.GraphModule that takes the flat inputs and gives the tuple of flat outputs.";
  }
  void inputs() override;
  void end() override;
  void write_back(const std::string& given, const std::string& used) override;
  std::string output(const Output&) override;
  void give(const std::string& results) override;
  std::string before() override;
  std::string around(const std::string& body) override;
  void check_failures();
  void add_map(std::vector<std::string>& to, const codegen::MappedTensor&);
  void copy_between_devices(const CallExtern&);
  /// A tensor there; writes a node for one where a program over several devices needs it.
  std::string on_program_device();
  /// What a launch is given of the failures' tensor; empty where it has none to look at.
  std::string status() const;
  std::string on_device(BufferId) const;
  void assign(const std::string& name, const std::string& arguments, const std::string& type = "");
  void name_storage_offsets();
  sym::Expr own_symbol(std::string name, const char* most);
  sym::Expr placed(const View&) const;
  std::string symbols_in_text() const;
  std::string type_of(BufferId) const;
  std::string type_of(const View&, sym::Expr offset) const;
  std::string type_of(sym::Expr, const std::string& name) const;
  std::string size(sym::Expr);
  std::string sizes(const sym::Exprs&);
  std::string compute(sym::Expr);
  std::string storage_offset(BufferId);
  std::string view(const View&);
  std::string views(const std::vector<View>&);

  using Sizes = std::unordered_map<sym::Expr, std::string>;
  using Offsets = std::map<BufferId, std::string>;
  /// A block being written.
  struct Block {
    std::string name;                     ///< the Python variable that holds it
    std::string other = {};               ///< that of the branch's first side, where this is the second
    std::string condition = {};           ///< of a branch, and of what follows the break in a loop
    std::string extent = {};              ///< of a loop
    bool is_rest = false;                 ///< what follows the break
    std::vector<std::string> gives = {};  ///< of a branch: the variables that hold what both sides make
    std::vector<std::string> types = {};  ///< and their types
    Sizes values = {};                    ///< as they were outside
    Offsets storage_offsets = {};
  };
  void open(Block, const std::string& as = "");
  Block close();
  void end_side();
  void begin_branch(const Control&);
  void begin_other_side();
  void end_branch();
  void begin_loop(const Control&);
  void end_loop();
  std::string truth(sym::Expr condition);

  Sizes values_;  ///< nodes that hold sizes
  Offsets storage_offsets_;
  std::vector<Block> blocks_;
  std::map<std::size_t, Joined> joined_;
  std::map<BufferId, sym::Expr> moved_;             ///< where inputs of which views are taken begin in their storage
  std::map<std::string, std::string> own_symbols_;  ///< declarations of symbols that the program has none of
  std::string like_;                                ///< a tensor that every call has; empty where there is none
  std::string told_;                                ///< the statuses of kernels that may fail
};

}  // namespace coil::wrapper
