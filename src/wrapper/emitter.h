// A language that programs can be written in: wrapper lines in, the text of one source file out.
#pragma once
#include <string>

#include "support/extension_api.h"
#include "wrapper/emit_options.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Lines of a text, counted from 1; count 0 for none.
struct TextLines {
  std::size_t first = 0, count = 0;
};

class COIL_EXTENSION_API Emitter {
 public:
  virtual ~Emitter() = default;
  /// Throws Error on what the language cannot express.
  virtual std::string emit(const Program&, const EmitOptions&) = 0;
  /// Whether its programs can use constants in the form that the runtime's library packed them into.
  virtual bool reads_packed_weights() const { return true; }
  /// Whether its programs keep the device of each value. Others are written of programs on one device alone.
  virtual bool writes_several_devices() const { return false; }
  /// Whether the text of this program holds the kernels' binaries.
  virtual bool needs_binaries(const Program&) const { return false; }
  /// After emit: for each line of the wrapper IR the lines of the text that it became.
  const std::vector<TextLines>& lines() const { return lines_; }

 protected:
  /// `ends[i]`: how much of `body` was there once line i had been written; `body` stands in `text`.
  void locate(const std::string& text, const std::string& body, std::size_t begin,
              const std::vector<std::size_t>& ends);
  std::vector<TextLines> lines_;
};

/// Throws Error when the language has no programs for the device, or a buffer of a program for the CPU lies elsewhere.
void require_device(const Program&, const char* language);
/// Throws Error when the program lies on several devices.
void require_one_device(const Program&, const char* language);
/// Throws Error when an input, a constant or an output lies on another device than the program's: what is on another
/// device in between is nobody's to see.
void require_ends_on_one_device(const Program&, const char* language);

}  // namespace coil::wrapper
