// The wrapper IR as one Python file that runs beside torch.
#pragma once
#include "wrapper/emitter.h"
#include "wrapper/python/file.h"

namespace coil::wrapper {

/// Defines `call(args)`: the list of flat user inputs in, the tuple of flat outputs out. A line of the wrapper IR is a line of Python, but for definitions, which stand above.
/// With Coil's runtime library beside it, the file gives the plan's answers bit for bit; without it, library operations are torch's.
class COIL_EMITTER_API PythonEmitter : public Emitter {
 public:
  std::string emit(const Program&, const EmitOptions&) override;
  bool reads_packed_weights() const override { return false; }

 protected:
  // One for each kind of line: what it becomes in the body of `call`.
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
  virtual void line(const Control&);
  /// The statement that calls a kernel; arguments are expressions. What a backend overrides that calls kernels in another way.
  virtual std::string kernel_call(const std::string& symbol, const std::string& buffers, const std::string& scalars, const std::string& extent, std::int64_t grain, const std::string& failure);
  /// Definitions that stand before `call`.
  virtual std::string definitions() { return ""; }

  PythonFile& file() { return *file_; }
  void statement(const std::string& text) { body_ += std::string(4 * (1 + depth_), ' ') + text + "\n"; }

 private:
  void inputs();
  std::string view(const View&);
  std::string views(const std::vector<View>&);
  std::string output(const Output&);

  PythonFile* file_ = nullptr;
  std::string body_, library_calls_;
  std::size_t depth_ = 0;           ///< of open blocks
  std::vector<std::string> given_;  ///< names of inputs as the caller gave them
};

}  // namespace coil::wrapper
