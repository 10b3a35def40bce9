// What programs written as Python share, be they statements or the nodes of a graph: the walk over inputs, lines and
// outputs, and the sections of the file around it.
#pragma once
#include "wrapper/emitter.h"
#include "wrapper/failures.h"
#include "wrapper/landing.h"
#include "wrapper/python/file.h"

namespace coil::wrapper {

class COIL_EXTENSION_API PythonProgram : public Emitter {
 public:
  std::string emit(const Program&, const EmitOptions&) override;
  bool reads_packed_weights() const override { return false; }
  bool writes_several_devices() const override { return true; }

 protected:
  // One for each kind of line: what it becomes in the body. Symbols are defined where inputs are taken, before all
  // other lines.
  virtual void line(const DefineSymbol&) = 0;
  virtual void line(const Assert&) = 0;
  virtual void line(const DefineKernel&) {}  // kernels stand before the program
  virtual void line(const Allocate&) = 0;
  virtual void line(const Reuse&) = 0;
  virtual void line(const CallKernel&) = 0;
  virtual void line(const CallExtern&) = 0;
  virtual void line(const CallFallback&) = 0;
  virtual void line(const CallUserKernel&) = 0;
  virtual void line(const Free&) = 0;
  virtual void line(const ReadSymbol&) = 0;
  virtual void line(const SetSymbol&) = 0;
  virtual void line(const Control&) = 0;
  virtual void line(const AllocateComm&) = 0;
  virtual void line(const FreeComm&) = 0;
  virtual void line(const BeginPart&) {}
  virtual void line(const EndPart&) {}

  /// Definitions that stand before the program itself.
  virtual std::string definitions() { return ""; }

  // What the forms differ in.
  virtual const char* language() const = 0;
  /// The first sentence of the file's docstring.
  virtual const char* usage() const = 0;
  /// Takes the inputs, fills `given_`, and defines symbols by define_symbols().
  virtual void inputs() = 0;
  /// What stands before a line, such as a wait for what it touches.
  virtual void before_line(const Line&) {}
  /// What stands between the last line and the results.
  virtual void end() {}
  virtual void write_back(const std::string& given, const std::string& used) = 0;
  virtual std::string output(const Output&) = 0;
  virtual void give(const std::string& results) = 0;
  /// What stands between the kernels and the definitions.
  virtual std::string before() = 0;
  virtual std::string around(const std::string& body) = 0;

  void define_symbols();
  /// `0, [1, s0], dtype=torch.float32` as Python: `size` and `view` say how integers and operands are written.
  std::string arguments(const CallFallback&, const std::function<std::string(sym::Expr)>& size,
                        const std::function<std::string(const View&)>& view) const;
  PythonFile& file() { return *file_; }
  void statement(const std::string& text) { body_ += std::string(4 * (1 + depth_), ' ') + text + "\n"; }

  PythonFile* file_ = nullptr;
  std::size_t depth_ = 0;           ///< of open blocks
  std::size_t at_ = 0;              ///< place of the line that is being written
  FailureSites failures_;           ///< of a program on a GPU
  LandingMemory landing_;           ///< of a program over several devices
  std::vector<std::string> given_;  ///< names of inputs as the caller gave them

 private:
  std::string body_;
};

}  // namespace coil::wrapper
