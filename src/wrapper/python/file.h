// What all programs written as Python share: names, the sections around the program itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wrapper/emitter.h"
#include "wrapper/python/text.h"
#include "wrapper/weights_file.h"

namespace coil::wrapper {

/// One file being written. The names of buffers and symbols are Python identifiers, unlike all that the support text
/// defines.
class COIL_EXTENSION_API PythonFile {
 public:
  PythonFile(const Program&, const EmitOptions&);

  const Program& program() const { return p_; }
  const std::string& name(BufferId b) const { return buffers_[b]; }
  /// Where the buffer lies. Of a program on one device that is its device but for what no call touches, and nothing but
  /// its value is asked of.
  Device device(BufferId b) const { return touched_[b] && p_.others.empty() ? p_.device : p_.buffers[b].device; }
  /// `DEVICE` in programs for a GPU, where the buffer lies on it; empty for the CPU.
  std::string device_name(BufferId b) const { return device(b).is_host() ? "" : "DEVICE"; }
  std::string symbol(sym::Expr);
  std::string unique(std::string_view name) { return names_.unique(name); }
  /// An expression over sizes.
  std::string size(sym::Expr);
  std::string sizes(const sym::Exprs&);

  /// The file's first lines: its docstring. `usage` says what it defines.
  std::string head(const std::string& usage) const;
  std::string support() const;
  /// The kernels' text and, for each, its description: what it computes and the lines of the source graph.
  std::string kernels() const;
  /// Kernels that the user wrote, and what makes them; empty where there are none.
  std::string user_kernels() const;
  /// The name under which graphs call a kernel: equal in two files only where all of the kernels' text is.
  std::string kernel_key(std::size_t kernel) const;
  /// Enters the kernels into the table that graphs look into.
  std::string kernel_table() const;
  /// `name = weight(...)` for each constant that is used.
  std::string weights() const;
  /// `add, relu (model.py:12)`, on one line.
  static std::string origins(const std::set<std::string>& origins, const std::string& where);

 private:
  /// The source of the kernels of one device.
  std::string kernel_source(std::size_t place) const;
  bool has_kernels(std::size_t place) const;
  std::string kernels_on_cpu(std::size_t place) const;
  std::string kernels_on_cuda() const;
  /// The library operations that the program calls on one of its devices, or on any.
  std::set<std::string> library_ops(std::optional<std::size_t> place) const;
  std::string fragment(const std::set<std::string>& origins) const;

  const Program& p_;
  const EmitOptions& options_;
  std::vector<std::optional<WeightPlace>> places_;
  PythonNames names_;
  mutable std::string key_;  ///< of the kernels' text, made when asked for
  std::vector<std::string> buffers_;
  std::vector<bool> touched_;
  std::unordered_map<sym::Expr, std::string> symbols_;
};

/// Whether the view is the whole buffer as it is laid out.
bool is_whole(const Program&, const View&);

}  // namespace coil::wrapper
