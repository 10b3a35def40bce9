#include "wrapper/python/file.h"

#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/products.h"
#include "device/pieces.h"
#include "library_ops/table.h"
#include "support/error.h"
#include "support/hash.h"
#include "sym/print.h"
#include "wrapper/python/support_text.h"
#include "wrapper/python/user_kernel_text.h"

namespace coil::wrapper {
namespace {

std::set<std::string> reserved(const Program& p) {
  std::set<std::string> names = python_support_names();
  for (const KernelEntry& k : p.kernels) names.insert(k.symbol);
  for (const auto& k : wrapper::user_kernels(p)) names.insert(k->symbol);
  return names;
}

}  // namespace

bool is_whole(const Program& p, const View& v) {
  const Buffer& b = p.buffers[v.buffer];
  return v.dtype == b.dtype && v.sizes == b.sizes && v.strides == b.strides && v.offset.is_constant(0);
}

PythonFile::PythonFile(const Program& p, const EmitOptions& options)
    : p_(p), options_(options), places_(place_weights(p)), names_(reserved(p)) {
  for (const Buffer& b : p.buffers)
    buffers_.push_back(unique(b.kind == BufferKind::Constant ? "w_" + b.name : b.name)),
        touched_.push_back(b.kind == BufferKind::Constant);
  for (const Line& l : p.lines) {
    if (std::holds_alternative<ReadSymbol>(l)) continue;
    const Uses u = uses(l);
    for (const auto* touched : {&u.reads, &u.writes})
      for (BufferId b : *touched) touched_[b] = true;
  }
}

std::string PythonFile::symbol(sym::Expr s) {
  auto [it, added] = symbols_.emplace(s, "");
  if (added) it->second = unique(s.name());
  return it->second;
}

std::string PythonFile::size(sym::Expr e) {
  return sym::to_python(e, [&](sym::Expr s) { return symbol(s); });
}

std::string PythonFile::sizes(const sym::Exprs& values) {
  std::vector<std::string> out;
  for (sym::Expr e : values) out.push_back(size(e));
  return python_tuple(out);
}

std::string PythonFile::head(const std::string& usage) const {
  std::string text = fmt::format("{}, compiled by coil. It runs beside torch.\n\n{}\n",
                                 p_.name.empty() ? "A program" : p_.name, usage);
  if (std::any_of(places_.begin(), places_.end(), [](const auto& p) { return p.has_value(); }))
    text += fmt::format("Weights are read from {}, which belongs beside it.\n", options_.weights_name);
  return python_block(text) + "\n";
}

std::set<std::string> PythonFile::library_ops(std::optional<std::size_t> place) const {
  std::set<std::string> ops;
  for (const Line& l : p_.lines)
    if (auto* c = std::get_if<CallExtern>(&l);
        c && !library_ops::has(c->op, library_ops::Trait::DeviceCopy) && (!place || p_.place_of(*c) == *place))
      ops.insert(c->op);
  return ops;
}

std::string PythonFile::support() const {
  if (!p_.device.is_host()) require_torch_ops(p_.device, library_ops(0));
  return python_support(p_.device, library_ops({}), !p_.others.empty());
}

std::string PythonFile::origins(const std::set<std::string>& origins, const std::string& where) {
  return python_comment(fmt::format("{}{}", fmt::join(origins, ", "), where.empty() ? "" : " (" + where + ")"));
}

std::string PythonFile::fragment(const std::set<std::string>& origins) const {
  std::string out;
  for (const auto& [name, text] : p_.source)
    if (origins.contains(name)) out += "    " + text + "\n";
  return out;
}

bool PythonFile::has_kernels(std::size_t place) const {
  return std::ranges::any_of(p_.kernels, [&](const KernelEntry& k) { return k.place == place; });
}

std::string PythonFile::kernel_source(std::size_t place) const {
  std::string body;
  for (const KernelEntry& k : p_.kernels)
    if (k.place == place) body += "\n" + k.text;
  if (!p_.device_of(place).is_host()) return codegen::cuda_head(body, options_.dependent_launches) + body;
  return codegen::prelude(options_.lanes, codegen::prelude_names(body)) + codegen::kernel_support() + body;
}

std::string PythonFile::kernel_key(std::size_t kernel) const {
  if (key_.empty()) {
    Hasher hasher;
    for (std::size_t place = 0; place <= p_.others.size(); ++place) {
      if (p_.device_of(place).is_host())
        for (const std::string& f : options_.flags) hasher.add(f);
      if (place == 0 || has_kernels(place)) hasher.add(kernel_source(place));
    }
    key_ = to_hex(hasher.digest()).substr(0, 8);
  }
  return p_.kernels[kernel].symbol + "@" + key_;
}

std::string PythonFile::kernel_table() const {
  std::vector<std::string> calls;
  if (!p_.device.is_host()) calls.emplace_back("cuda=LibraryCall");
  if (p_.device.is_host() || !p_.others.empty()) calls.emplace_back("cpu=HostLibraryCall");
  std::string out = fmt::format("\n\nKERNEL_TABLE = operators({})\n", fmt::join(calls, ", "));
  std::set<std::size_t> entered;
  for (const Line& l : p_.lines) {
    auto* c = std::get_if<CallKernel>(&l);
    if (!c || !entered.insert(c->kernel).second) continue;
    std::vector<std::string> written;
    for (bool w : c->written) written.emplace_back(w ? "True" : "False");
    out += fmt::format("KERNEL_TABLE[{}] = ({}, {})\n", python_string(kernel_key(c->kernel)),
                       p_.kernels[c->kernel].symbol, python_tuple(written));
  }
  for (const auto& k : wrapper::user_kernels(p_))
    out += fmt::format("KERNEL_TABLE[{}] = {}\n", python_string(k->symbol), k->symbol);
  return out;
}

std::string PythonFile::kernels_on_cpu(std::size_t place) const {
  std::string out;
  const std::string& isa = place == 0 ? options_.isa : options_.host_isa;
  if (!isa.empty()) out += fmt::format("require_isa({})\n", python_string(isa));
  out += "KERNEL_SOURCE = " + python_block(kernel_source(place)) + "\n";
  std::vector<std::string> flags;
  for (const std::string& f : options_.flags) flags.push_back(python_string(f));
  return out + fmt::format("HOST_KERNELS = compile_host_kernels(KERNEL_SOURCE, [{}])\n", fmt::join(flags, ", "));
}

std::string PythonFile::kernels_on_cuda() const {
  constexpr int kWithClusters = 90;
  std::string bodies, texts, flags;
  for (const KernelEntry& k : p_.kernels)
    if (k.place == 0) bodies += k.text, texts += fmt::format("    {},\n", python_block("\n" + k.text));
  for (const char* f : codegen::kNvrtcFlags) flags += fmt::format("{}{}", flags.empty() ? "" : ", ", python_string(f));
  const bool clusters = options_.dependent_launches || std::any_of(p_.lines.begin(), p_.lines.end(), [](const Line& l) {
                          auto* c = std::get_if<CallKernel>(&l);
                          return c && c->launch && c->launch->cluster > 1;
                        });
  const char* family = codegen::needs_family(bodies) ? " + \"a\"" : "";
  return fmt::format(
      "KERNEL_HEAD = {}\nKERNEL_TEXTS = [\n{}]\nKERNELS = LoadedKernels(compile_kernels(KERNEL_HEAD, KERNEL_TEXTS, "
      "[{}], device_arch({}){}), early={})\n",
      python_block(codegen::cuda_head(bodies, options_.dependent_launches)), texts, flags, clusters ? kWithClusters : 0,
      family, options_.dependent_launches ? "True" : "False");
}

std::string PythonFile::kernels() const {
  if (p_.kernels.empty()) return "";
  std::string out = "\n\n# ---- Kernels of this program ----\n\n";
  for (std::size_t place = 0; place <= p_.others.size(); ++place)
    if (has_kernels(place)) out += p_.device_of(place).is_host() ? kernels_on_cpu(place) : kernels_on_cuda();
  std::vector<bool> described(p_.kernels.size(), false);
  for (const Line& l : p_.lines) {
    auto* c = std::get_if<CallKernel>(&l);
    if (!c || described[c->kernel]) continue;
    described[c->kernel] = true;
    std::string text = origins(c->origins, c->where);
    if (const std::string lines = fragment(c->origins); !lines.empty()) text += "\n\n" + lines + "    ";
    out += fmt::format("\n\n@{}\ndef {}():\n    {}\n", c->launch ? "Kernel" : "HostKernel",
                       p_.kernels[c->kernel].symbol, python_block(text));
  }
  return out;
}

std::string PythonFile::user_kernels() const {
  const auto all = wrapper::user_kernels(p_);
  if (all.empty()) return "";
  std::string out = "\n\n" + device::whole("python/user_kernels.py");
  for (const auto& kernel : all) {
    std::vector<bool> written;
    for (const Line& l : p_.lines)
      if (auto* c = std::get_if<CallUserKernel>(&l); c && c->kernel == kernel) written = c->written;
    std::vector<std::string> flags;
    for (bool w : written) flags.emplace_back(w ? "True" : "False");
    out += python_user_kernel(*kernel) + fmt::format("{}.written = {}\n", kernel->symbol, python_tuple(flags));
  }
  return out;
}

std::string PythonFile::weights() const {
  std::string out;
  for (std::size_t b = 0; b < p_.buffers.size(); ++b) {
    const Buffer& buffer = p_.buffers[b];
    if (buffer.kind != BufferKind::Constant) continue;
    const Tensor& t = p_.constants[buffer.index].value;
    const auto& place = places_[buffer.index];
    auto list = [](const auto& values) {
      std::vector<std::string> items;
      for (auto v : values) items.push_back(std::to_string(v));
      return python_tuple(items);
    };
    out += fmt::format("{} = weight({}, {}, {}, {}, {}, {}, {}{})\n", buffers_[b], place ? "WEIGHTS" : "None",
                       place ? python_string(place->name) : "\"\"", place ? place->offset : 0, place ? place->bytes : 0,
                       python_dtype(t.dtype), list(t.sizes), list(t.strides),
                       p_.device_of(p_.place_of(static_cast<BufferId>(b))).is_host() ? "" : ", DEVICE");
  }
  if (out.empty()) return "";
  const bool file = std::any_of(places_.begin(), places_.end(), [](const auto& p) { return p.has_value(); });
  return "\n\n# ---- Weights of this program ----\n\n" +
         (file ? fmt::format("WEIGHTS = open_weights({})\n", python_string(options_.weights_name)) : "") + out;
}

}  // namespace coil::wrapper
