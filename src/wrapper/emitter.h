// A language that programs can be written in: wrapper lines in, the text of one source file out.
#pragma once
#include <string>

#include "wrapper/emit_options.h"
#include "wrapper/program.h"

/// Classes and functions that libraries from outside derive from and call.
#define COIL_EMITTER_API __attribute__((visibility("default")))

namespace coil::wrapper {

/// Lines of a text, counted from 1; count 0 for none.
struct TextLines {
  std::size_t first = 0, count = 0;
};

class COIL_EMITTER_API Emitter {
 public:
  virtual ~Emitter() = default;
  /// Throws Error on what the language cannot express.
  virtual std::string emit(const Program&, const EmitOptions&) = 0;
  /// Whether its programs can use constants in the form that the runtime's library packed them into.
  virtual bool reads_packed_weights() const { return true; }
  /// After emit: for each line of the wrapper IR the lines of the text that it became.
  const std::vector<TextLines>& lines() const { return lines_; }

 protected:
  /// `ends[i]`: how much of `body` was there once line i had been written; `body` stands in `text`.
  void locate(const std::string& text, const std::string& body, std::size_t begin, const std::vector<std::size_t>& ends);
  std::vector<TextLines> lines_;
};

/// Throws Error when the program or a buffer of it is not for the CPU, the only device that the language's programs are written for.
void require_cpu(const Program&, const char* language);

}  // namespace coil::wrapper
