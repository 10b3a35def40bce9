// The wrapper IR as one Python file that runs beside torch.
#pragma once
#include "wrapper/python/program.h"

namespace coil::wrapper {

/// Defines `call(args)`: the list of flat user inputs in, the tuple of flat outputs out. A line of the wrapper IR is a
/// line of Python, but for definitions, which stand above. With Coil's runtime library beside it, the file gives the
/// plan's answers bit for bit; without it, library operations are torch's.
class COIL_EXTENSION_API PythonEmitter : public PythonProgram {
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
  void line(const Control&) override;
  /// A part is a function of what crosses its borders, in the place where it is called (run_part).
  void line(const BeginPart&) override;
  void line(const EndPart&) override;
  /// The statement that calls a kernel; arguments are expressions. What a backend overrides that calls kernels in
  /// another way.
  virtual std::string kernel_call(const std::string& symbol, const std::string& buffers, const std::string& scalars,
                                  const std::string& extent, std::int64_t grain, const std::string& failure);
  /// The call of a kernel on a GPU. `failure`: the status that the kernel is given, empty for none.
  virtual std::string kernel_launch(const std::string& symbol, const std::string& buffers, const std::string& scalars,
                                    const codegen::SymbolicLaunch&, const std::string& failure);

 private:
  const char* language() const override { return "python"; }
  const char* usage() const override {
    return "call(args) takes the list of flat inputs and gives the tuple of flat outputs.";
  }
  void inputs() override;
  /// Waits for copies to the host whose memory the line may touch.
  void before_line(const Line&) override;
  void end() override;
  void write_back(const std::string& given, const std::string& used) override;
  std::string output(const Output&) override;
  void give(const std::string& results) override;
  std::string before() override;
  std::string around(const std::string& body) override;
  std::string view(const View&);
  std::string views(const std::vector<View>&);
  void origins(const std::set<std::string>& origins, const std::string& where);

  void check_failures(bool wanted);
  void copy_between_devices(const CallExtern&);
  /// What a launch on a GPU is given as its status; empty where it has none to look at.
  std::string status(const std::string& failure) const;
  std::vector<std::string> given_to(const Part&);
  std::string on_device(BufferId, const char* keyword) const;

  std::string library_calls_, told_;  ///< `told_`: the variable that holds the statuses
  const Part* open_part_ = nullptr;
  std::string part_;           ///< the function of the open part
  std::set<BufferId> let_go_;  ///< what was there before the open part and is freed in it
};

}  // namespace coil::wrapper
