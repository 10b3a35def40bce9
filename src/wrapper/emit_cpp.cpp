#include "wrapper/emit_cpp.h"

#include <algorithm>
#include <cctype>

#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude.h"
#include "coil/runtime.h"
#include "device/pieces.h"
#include "library_ops/collectives.h"
#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "ops/registry.h"
#include "support/error.h"
#include "support/host_names.h"
#include "sym/print.h"
#include "wrapper/comm_pools.h"
#include "wrapper/cpp/literals.h"
#include "wrapper/cpp/support_text.h"
#include "wrapper/cpp/target_text.h"
#include "wrapper/failures.h"
#include "wrapper/landing.h"
#include "wrapper/weights_file.h"

namespace coil::wrapper {
namespace {

std::string joined(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, ", ")); }

class Printer {
 public:
  Printer(const Program& p, const EmitOptions& options)
      : p_(p),
        options_(options),
        pools_(comm_pools(p)),
        places_(place_weights(p)),
        joined_(joined_values(p)),
        touched_(touched_buffers(p)),
        on_gpu_(!p.device.is_host()),
        over_host_(!p.others.empty()),
        failures_(failure_sites(p)),
        landing_(landing_memory(p)) {}

  std::string print() {
    name_buffers();
    print_run();
    const std::string ops = std::move(ops_), members = std::move(members_), weights = std::move(weights_);
    return head() + cpp_support(p_.device, over_host_) + "\nnamespace {\n\n" + ports() + kernel_declarations() +
           "}  // namespace\n\nstruct coil_program {\n" + (on_gpu_ ? device_members() : "") + "  Seeds seeds;\n" +
           members + "\n  explicit coil_program(const char* weights_path);\n" +
           "  void run(const coil_tensor* inputs, coil_tensor* outputs);\n};\n\ncoil_program::coil_program(const "
           "char*" +
           (initializers_.empty() ? ")" : " weights_path)" + initializers_) + " {\n" + require_isa() + weights + ops +
           "}\n\n" +
           fmt::format("void coil_program::run(const coil_tensor*{}, coil_tensor*{}) {{\n",
                       reads_inputs() ? " inputs" : "", p_.outputs.empty() ? "" : " outputs") +
           run_ + "}\n" + cpp_entry(p_.device) + cpp_main() + (on_gpu_ ? binaries() : "") + kernels();
  }

  const std::string& body() const { return run_; }
  std::size_t begin = 0;          ///< where the lines begin in the body
  std::vector<std::size_t> ends;  ///< and where each ends

 private:
  bool reads_inputs() const {
    return std::any_of(p_.inputs.begin(), p_.inputs.end(), [](const Input& in) { return !in.unused; });
  }

  // ---- Names ----

  std::string unique(std::string_view prefix, std::string_view name) {
    std::string out(prefix);
    for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    while (!taken_.insert(out).second) out += '_';
    return out;
  }

  void name_buffers() {
    for (const Buffer& b : p_.buffers) {
      const char* prefix = b.kind == BufferKind::Input      ? "in_"
                           : b.kind == BufferKind::Constant ? "w_"
                           : b.name.starts_with("buf")      ? ""
                                                            : "t_";
      names_.push_back(unique(prefix, b.name));
    }
  }

  // ---- Places ----

  /// Whether it lies on the CPU of a program whose device is another.
  bool beside(BufferId b) const { return p_.place_of(b) != 0; }
  /// `on_host` behind a comma, the last argument of what the runtime is told of such a buffer.
  const char* beside_argument(BufferId b) const { return beside(b) ? ", on_host" : ""; }

  /// Waits for copies to the host that the program has gone on from, where the line may touch their memory.
  void await_copies(const Line& l) {
    const Uses u = uses(l);
    std::set<BufferId> told;
    for (const auto* buffers : {&u.reads, &u.writes})
      for (BufferId b : *buffers)
        if (landing_.ever.contains(landing_.memory[b]) && told.insert(b).second) line("landing.await({});", address(b));
  }
  /// Behind a copy: the host goes on while its memory is written to, or with values of kernels that did not fail.
  void after_copy(const CallExtern& c) {
    const BufferId to = c.outputs.front().buffer;
    if (!library_ops::has(c.op, library_ops::Trait::DeviceCopy) || !beside(to)) return;
    if (!read(c.attributes, library_ops::copies::kNonBlocking)) {
      if (failures_.behind.contains(at_)) line("failures.look();");
      return;
    }
    const BufferKind kind = p_.buffers[landing_.memory[to]].kind;
    const bool owned = kind == BufferKind::Temporary || kind == BufferKind::Output;
    line("landing.add({}, {});", address(to), owned ? names_[to] + ".owner" : "nullptr");
  }

  /// The address of a buffer's first byte.
  std::string address(BufferId b) const {
    switch (p_.buffers[b].kind) {
      case BufferKind::Input: return names_[b] + ".data()";
      case BufferKind::Constant: return names_[b];
      default: return names_[b] + ".data";
    }
  }

  // ---- Sizes ----

  std::string cpp(Expr e) {
    auto floats = [&](Expr x) -> std::optional<std::string> {
      if (x.kind() != sym::Kind::Float) return std::nullopt;
      return sym::float_code(sym::Language::Cpp, x, [&](Expr integer) { return cpp(integer); });
    };
    return sym::to_code(
        sym::Language::Cpp, e, [&](Expr s) { return symbol(s); }, [&](Expr x) { return p_.env->bounds(x).low >= 0; },
        sym::IntWidth::Bits64, floats);
  }

  std::string symbol(Expr s) {
    auto [it, added] = sizes_.emplace(s, "");
    if (added) it->second = unique("", s.name()), note(s);
    return it->second;
  }

  /// A literal, or the variable that holds the value: each distinct expression is computed once, before its first use.
  std::string size(Expr e) {
    if (e.is_constant()) return cpp(e);
    if (e.is_symbol()) return symbol(e);
    if (auto it = sizes_.find(e); it != sizes_.end()) return it->second;
    const std::string value = cpp(e), name = fmt::format("z{}", next_size_++);
    line("const Size {} = {};", name, value);
    note(e);
    return sizes_[e] = name;
  }

  /// A name belongs to the block that it is defined in.
  void note(Expr e) {
    if (!scopes_.empty()) scopes_.back().push_back(e);
  }

  std::string list(const Exprs& values) {
    std::vector<std::string> out;
    for (Expr e : values) out.push_back(size(e));
    return "{" + joined(out) + "}";
  }

  std::string window(const View& v) {
    if (v.sizes.size() > COIL_MAX_RANK)
      fail("{} is viewed with {} dimensions; C++ source can be written for up to {}", p_.buffers[v.buffer].name,
           v.sizes.size(), COIL_MAX_RANK);
    std::string out =
        fmt::format("window({}, {}, {}, {}", dtype(v.dtype), address(v.buffer), list(v.sizes), list(v.strides));
    if (!v.offset.is_constant(0) || beside(v.buffer)) out += ", " + size(v.offset);
    return out + beside_argument(v.buffer) + ")";
  }

  // ---- The run ----

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    run_ += "  " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  static std::string one_line(std::string text) {
    std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\\'; }, ' ');
    return text;
  }
  void comment(const std::set<std::string>& origins, const std::string& where) {
    std::string text = fmt::format("{}", fmt::join(origins, ", "));
    if (!where.empty()) text += " (" + where + ")";
    text = one_line(std::move(text));
    if (!text.empty()) line("// {}", text);
  }

  void declare_pools() {
    for (std::size_t k = 0; k < pools_.size(); ++k) {
      const std::string group = c_string(pools_[k].layout.group);
      members_ += fmt::format("  Comm comm{}{{{}, {}, {}}};\n", k, group, pools_[k].bytes, c_string(pools_[k].plan));
      ops_ += fmt::format("  check(require_group({}, 0));\n", group);
      line("const CommRun run_in_comm{0}{{comm{0}}};", k);
    }
  }

  void print_run() {
    declare_pools();
    for (std::size_t i = 0; i < p_.inputs.size(); ++i)
      if (!p_.inputs[i].unused)
        line("check_input(input_ports[{0}], inputs[{0}]{1});", i, beside_argument(p_.inputs[i].buffer));
    for (const Line& l : p_.lines)
      if (auto* d = std::get_if<DefineSymbol>(&l)) define(*d);
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) {
      const Input& in = p_.inputs[i];
      if (in.unused) continue;
      const Buffer& b = p_.buffers[in.buffer];
      const std::string sizes = list(b.sizes);
      if (!touched_.contains(in.buffer) && !in.mutated) {
        line("check_sizes(input_ports[{0}], inputs[{0}], {1});", i, sizes);
        continue;
      }
      const std::string strides = list(b.strides);
      line("const Input {0}(input_ports[{1}], inputs[{1}], {2}, {3}{4});", names_[in.buffer], i, sizes, strides,
           beside_argument(in.buffer));
    }
    for (std::size_t k = 0; k < p_.buffers.size(); ++k)
      if (p_.buffers[k].kind == BufferKind::Constant) bind_constant(static_cast<BufferId>(k));
    has_status_ = std::ranges::any_of(p_.lines, [](const Line& l) {
      const auto* call = std::get_if<CallKernel>(&l);
      return call && !call->launch;
    });
    if (has_status_) line("int64_t status = 0;");
    if (std::any_of(p_.lines.begin(), p_.lines.end(), [](const Line& l) {
          return std::holds_alternative<CallFallback>(l) && std::get<CallFallback>(l).op.starts_with(kSized);
        })) {
      members_ += "  Kept kept;\n";
      line("kept.clear();  // of a run that failed");
    }
    for (std::size_t k = 0; k < p_.buffers.size(); ++k)
      if (p_.buffers[k].kind == BufferKind::Constant && p_.constants[p_.buffers[k].index].seed)
        line("seeds.{}({});", is_on_host(static_cast<BufferId>(k)) ? "renew_on_host" : "renew", names_[k]);
    begin = run_.size();
    for (at_ = 0; at_ < p_.lines.size(); ++at_) {
      if (auto both = joined_.find(at_); both != joined_.end()) declare(both->second);
      await_copies(p_.lines[at_]);
      std::visit([&](const auto& x) { print_line(x); }, p_.lines[at_]);
      ends.push_back(run_.size());
    }
    if (!landing_.ever.empty()) line("landing.finish();");
    for (const Input& in : p_.inputs)
      if (in.mutated) line("{}.write_back();", names_[in.buffer]);
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) print_output(i);
  }

  /// What lines use, or results view: of other inputs only sizes and values count.
  static std::set<BufferId> touched_buffers(const Program& p) {
    std::set<BufferId> touched;
    for (const Line& l : p.lines) {
      const Uses u = uses(l);
      touched.insert(u.reads.begin(), u.reads.end());
      touched.insert(u.writes.begin(), u.writes.end());
    }
    for (const Output& o : p.outputs)
      if (auto* v = std::get_if<View>(&o.value)) touched.insert(v->buffer);
    return touched;
  }

  void bind_constant(BufferId b) {
    const auto& place = places_[p_.buffers[b].index];
    if (!place) {
      if (touched_.contains(b)) members_ += fmt::format("  char* {} = nullptr;  // it has no elements\n", names_[b]);
      return;
    }
    if (initializers_.empty()) {
      members_ = "  Weights weights;\n" + members_;
      initializers_ = fmt::format(" : weights(open_weights(weights_path, {}))", c_string(options_.weights_name));
    }
    members_ += fmt::format("  char* {};\n", names_[b]);
    weights_ += fmt::format("  {} = weights.{}({}, {}, {});\n", names_[b], beside(b) ? "on_host_at" : "at",
                            c_string(place->name), place->offset, place->bytes);
  }

  void define(const DefineSymbol& d) {
    std::string value = d.from == DefineSymbol::From::Size ? fmt::format("Size(inputs[{}].sizes[{}])", d.input, d.dim)
                        : d.from == DefineSymbol::From::Stride
                            ? fmt::format("Size(inputs[{}].strides[{}])", d.input, d.dim)
                            : fmt::format("integer(inputs[{}])", d.input);
    if (!d.subtract.is_constant(0)) value += fmt::format(" - ({})", cpp(d.subtract));
    if (!d.divide.is_constant(1)) value = fmt::format("coil_floordiv({}, Size({}))", value, cpp(d.divide));
    line("const Size {} = {};", symbol(d.symbol), value);
  }

  void print_line(const DefineSymbol&) {}
  void print_line(const DefineKernel&) {}
  void print_line(const Assert& a) {
    const std::string condition = cpp(a.condition);
    line("if (!({})) fail({});", condition, c_string(a.message));
  }
  void print_line(const Allocate& a) {
    std::string bytes = size(p_.buffers[a.buffer].bytes);
    if (beside(a.buffer)) bytes += landing_.ever.contains(landing_.memory[a.buffer]) ? ", page_locked" : ", on_host";
    if (declared_.contains(a.buffer))
      line("{} = Memory({});", names_[a.buffer], bytes);
    else
      line("Memory {}({});", names_[a.buffer], bytes);
  }
  /// Waits for what was queued, and fails where a kernel in it has.
  void check_failures(const std::set<std::size_t>& where) {
    if (where.contains(at_)) line("failures.check();");
  }
  void print_line(const ReadSymbol& r) {
    check_failures(failures_.behind);
    line("const Size {} = read_number({}{});", symbol(r.symbol), address(r.source), beside_argument(r.source));
  }
  void print_line(const SetSymbol& s) {
    const std::string value = cpp(s.value);
    const bool declared = declared_symbols_.contains(s.symbol);
    line("{}{} = {};", declared ? "" : "const Size ", symbol(s.symbol), value);
  }
  /// What both sides of a branch make, before it.
  void declare(const Joined& both) {
    for (Expr s : both.symbols)
      if (declared_symbols_.insert(s).second) line("Size {};", symbol(s));
    for (BufferId b : both.buffers)
      if (declared_.insert(b).second) line("{} {};", p_.buffers[b].comm ? "CommPlace" : "Memory", names_[b]);
  }
  void print_line(const Control& c) {
    if (c.closes()) {
      // What was named in the block is not known after it.
      for (Expr e : scopes_.back()) sizes_.erase(e);
      scopes_.pop_back();
    }
    using Kind = Control::Kind;
    switch (c.kind) {
      case Kind::If: line("if ({}) {{", cpp(sym::ne(c.condition, 0))); break;
      case Kind::Else: line("}} else {{"); break;
      case Kind::EndIf: line("}}"); break;
      case Kind::Loop: {
        const std::string end = c.extent.is_constant(sym::Range::kMax) ? "" : size(c.extent);
        scopes_.emplace_back();
        if (end.empty())
          line("for (Size {0} = 0;; ++{0}) {{", symbol(c.counter));
        else
          line("for (Size {0} = 0; {0} < Size({1}); ++{0}) {{", symbol(c.counter), end);
      } break;
      case Kind::BreakUnless: line("if (!({})) break;", cpp(sym::ne(c.condition, 0))); break;
      case Kind::EndLoop: line("}}"); break;
    }
    if (c.kind == Kind::If || c.kind == Kind::Else) scopes_.emplace_back();
  }
  /// A part is a function of what crosses its borders, all of which it names: what it makes is declared before it.
  void print_line(const BeginPart& b) {
    const Part& part = p_.parts[b.part];
    declare({{}, part.outputs});
    std::vector<std::string> captured{"this"};
    for (const auto* buffers : {&part.inputs, &part.outputs})
      for (BufferId id : *buffers)
        if (p_.buffers[id].kind != BufferKind::Constant) captured.push_back("&" + names_[id]);
    for (Expr s : part.symbols) captured.push_back(symbol(s));
    if (has_status_) captured.emplace_back("&status");
    sizes_outside_ = sizes_;
    std::erase_if(sizes_, [](const auto& size) { return !size.first.is_symbol(); });
    part_ = unique("part", std::to_string(b.part));
    line("const auto {} = [{}] {{", part_, joined(captured));
  }
  void print_line(const EndPart&) {
    line("}};");
    line("{}();", part_);
    sizes_ = std::move(sizes_outside_);
  }
  void print_line(const Reuse& r) {
    line("{}{} = {}.share();", declared_.contains(r.to) ? "" : "Memory ", names_[r.to], names_[r.from]);
  }
  void print_line(const Free& f) { line("{}.free();", names_[f.buffer]); }
  void print_line(const AllocateComm& a) {
    line("{}{} = comm{}.at({});", declared_.contains(a.buffer) ? "" : "CommPlace ", names_[a.buffer],
         comm_pool_of(pools_, p_.buffers[a.buffer]), a.offset);
  }
  void print_line(const FreeComm& f) { line("{}.free();", names_[f.buffer]); }
  void print_line(const CallKernel& c) {
    comment(c.origins, c.where);
    std::vector<std::string> buffers;
    for (BufferId b : c.buffers) buffers.push_back(address(b));
    if (c.launch) return print_launch(c, joined(buffers));
    check_failures(failures_.guarded);
    buffers.emplace_back("&status");
    const std::string scalars = list(c.scalars), extent = size(c.extent);
    line("{}call(kernels::{}, {{{}}}, {}, {}, {});", where(c), p_.kernels[c.kernel].symbol, joined(buffers), scalars,
         extent, c.grain);
    if (!c.failure.empty()) line("if (status) fail({});", c_string(c.failure));
  }
  void print_launch(const CallKernel& c, const std::string& buffers) {
    const codegen::SymbolicLaunch& l = *c.launch;
    Exprs grid = l.grid;
    while (grid.size() > 1 && grid.back().is_constant(1)) grid.pop_back();
    const std::string scalars = list(c.scalars), blocks = list(grid), shared = size(l.shared_bytes), word = status();
    std::vector<std::string> maps;
    for (const codegen::MappedTensor& m : l.maps)
      maps.push_back(tensor_map(address(c.buffers[m.pointer]), size(m.offset), m.map, list(m.sizes), list(m.strides)));
    const std::string status = word.empty() && !maps.empty() ? "nullptr" : word,
                      descriptors = maps.empty() ? "" : fmt::format(", {{{}}}", joined(maps));
    line("{}queue.launch({}, {{{}}}, {}, {}, {}, {}{}{}{});", where(c), p_.kernels[c.kernel].symbol, buffers, scalars,
         blocks, l.block, shared, status.empty() ? "" : ", ", status, descriptors);
  }
  /// The name of a descriptor, which is made before the call.
  std::string tensor_map(const std::string& base, const std::string& offset, const ops::UserKernel::TensorMap& map,
                         const std::string& sizes, const std::string& strides) {
    const std::string name = fmt::format("map{}", next_map_++);
    line("const TensorMap {} = queue.tensor_map(pointer({}, {}), {}, {}, {{{}}}, {}, {});", name, base, offset,
         map.element, map.swizzle, fmt::join(map.box, ", "), sizes, strides);
    return name;
  }
  /// What stands in front of a call that is not always carried out.
  std::string where(const CallKernel& c) { return c.when ? fmt::format("if ({}) ", cpp(*c.when)) : ""; }
  /// The status of the call that is being written; empty where it has none to look at.
  std::string status() const {
    const auto site = failures_.sites.find(at_);
    if (site != failures_.sites.end()) return fmt::format("failures.status({})", site->second);
    return failures_.guarded.contains(at_) ? "failures.status(0)" : "";
  }
  /// The pointer, or the descriptor, which is made before the call.
  std::string pointer_argument(const ops::UserKernel::Parameter& p, const View& v) {
    const auto bytes = static_cast<std::int64_t>(size_of(v.dtype));
    const std::string base = address(v.buffer), offset = size(v.offset * bytes);
    if (!p.map) return fmt::format("pointer({}, {})", base, offset);
    Exprs strides;
    for (Expr s : v.strides) strides.push_back(p_.env->simplify(s * bytes));
    const std::string sizes = list(v.sizes), steps = list(strides);
    return tensor_map(base, offset, *p.map, sizes, steps) + ".argument()";
  }
  void print_line(const CallUserKernel& c) {
    using Kind = ops::UserKernel::Kind;
    if (!c.kernel->has_status()) check_failures(failures_.guarded);
    comment(c.origins, c.where);
    std::vector<std::string> arguments;
    std::size_t tensor = 0, number = 0;
    for (const ops::UserKernel::Parameter& p : c.kernel->parameters) {
      if (p.kind == Kind::Tensor || p.kind == Kind::Workspace) {
        arguments.push_back(pointer_argument(p, c.tensors.at(tensor++)));
      } else if (p.kind == Kind::Size || p.kind == Kind::Stride) {
        const View& v = c.tensors.at(tensor - 1);
        const std::string value = size((p.kind == Kind::Size ? v.sizes : v.strides).at(p.dimension));
        arguments.push_back(fmt::format("Argument{{{}, {}}}", value, p.bytes));
      } else if (p.kind == Kind::Status) {
        arguments.push_back(fmt::format("pointer({}, 0)", status()));
      } else {
        const std::string value = p.kind == Kind::Number ? size(c.numbers.at(number++)) : cpp_integer(p.bits);
        arguments.push_back(fmt::format("Argument{{{}, {}}}", value, p.bytes));
      }
    }
    const std::string grid = list(c.grid);
    line("queue.launch({}, {{{}}}, {}, {}, {});", c.kernel->symbol, joined(arguments), grid, c.kernel->block,
         c.kernel->shared_bytes);
  }
  void print_line(const CallExtern& c) {
    check_failures(failures_.guarded);
    comment(c.origins, c.where);
    const std::string op = fmt::format("op{}", next_op_++);
    const bool on_host = p_.place_of(c) != 0 && !library_ops::has(c.op, library_ops::Trait::DeviceCopy);
    members_ += fmt::format(fmt::runtime(on_host ? "  Op {}{{coil_op_create({})}};\n" : "  Op {}{{{}}};\n"), op,
                            c_string(c.op));
    std::string setters;
    for (const auto& [name, value] : c.attributes)
      setters += std::visit([&](const auto& v) { return setter(c_string(name), v); }, value);
    if (!setters.empty()) ops_ += fmt::format("  {}{};\n", op, setters);
    std::vector<std::string> in, out;
    for (const View& v : c.inputs) in.push_back(window(v));
    for (const View& v : c.outputs) out.push_back(window(v));
    line("{}.run({{{}}}, {{{}}});", op, joined(in), joined(out));
    after_copy(c);
    // Where the run fails before the wait, memory stays until the exchange is over.
    if (!library_ops::has(c.op, library_ops::Trait::Collective)) return;
    namespace names = library_ops::collectives;
    line("Exchange exchange{};", next_op_);
    ops_ += fmt::format("  check(require_group({}, {}));\n", c_string(read(c.attributes, names::kGroup)),
                        find(c.attributes, names::kRanks).value_or(0));
  }

  void print_line(const CallFallback& c) {
    comment(c.origins, c.where);
    std::vector<std::string> arguments, out;
    for (std::size_t k = 0; k < c.writes.size(); ++k)
      line("copy({}, {});", window(*c.outputs[own_results(c) + k]), window(c.inputs[c.writes[k]]));
    const bool sized = c.op.starts_with(kSized);
    for (std::size_t k = sized ? 1 : 0; k < c.arguments.size(); ++k)
      arguments.push_back(argument(c.arguments[k].value, c));
    for (std::size_t k = 0; k < own_results(c); ++k)
      out.push_back(c.outputs[k] ? window(*c.outputs[k]) : "coil_tensor{}");
    const std::string name(without_prefix(c.op));
    if (c.op.starts_with(kKept))
      return line("kept.take({}, {}, {{{}}});", c_string(name), window(c.inputs.at(0)), joined(out));
    const std::string op = fmt::format("host{}", next_host_++);
    const ops::Operator* known = ops::find(name);
    members_ += fmt::format("  HostOperator {}{{{}, {}}};\n", op, c_string(name),
                            c_string(known ? ops::to_string(known->schema) : ""));
    if (!sized) return line("{}.run({{{}}}, {{{}}});", op, joined(arguments), joined(out));
    std::vector<std::string> which;
    for (const ops::CallArgument& n : std::get<ops::CallArguments>(c.arguments.at(0).value))
      which.push_back(cpp(std::get<Expr>(n)));
    line("{}.tell(kept, {{{}}}, {{{}}}, {});", op, joined(which), joined(arguments), out.at(0));
  }

  /// An argument of an operator of the host, as the `coil_value` of it.
  std::string argument(const ops::CallArgument& a, const CallFallback& c) {
    if (std::holds_alternative<ops::None>(a)) return "coil_value{}";
    if (auto* b = std::get_if<bool>(&a)) return fmt::format("truth({})", *b);
    if (auto* e = std::get_if<Expr>(&a)) return fmt::format("whole({})", size(*e));
    if (auto* d = std::get_if<double>(&a)) return fmt::format("fraction({})", real(*d));
    if (auto* s = std::get_if<std::string>(&a)) return fmt::format("text({})", c_string(*s));
    if (auto* d = std::get_if<DType>(&a)) return fmt::format("text({})", c_string(torch_name(*d)));
    if (auto* d = std::get_if<Device>(&a)) return fmt::format("text({})", c_string(to_string(*d)));
    if (auto* f = std::get_if<ops::MemoryFormat>(&a)) return fmt::format("text({})", c_string(ops::name_of(*f)));
    if (auto* l = std::get_if<ops::TensorLayout>(&a)) return fmt::format("text({})", c_string(ops::name_of(*l)));
    if (auto* o = std::get_if<ops::Operand>(&a)) return fmt::format("operand({})", window(operand(c, o->index)));
    std::vector<std::string> items;
    for (const ops::CallArgument& item : std::get<ops::CallArguments>(a)) items.push_back(argument(item, c));
    return fmt::format("items({{{}}})", joined(items));
  }

  static std::string setter(const std::string& name, std::int64_t v) {
    return fmt::format(".integer({}, {})", name, cpp_integer(v));
  }
  static std::string setter(const std::string& name, double v) { return fmt::format(".real({}, {})", name, real(v)); }
  static std::string setter(const std::string& name, const std::string& v) {
    return fmt::format(".text({}, {})", name, c_string(v));
  }
  template <class T>
  static std::string setter(const std::string& name, const std::vector<T>& values) {
    std::vector<std::string> items;
    for (const T& v : values) {
      if constexpr (std::is_same_v<T, double>)
        items.push_back(real(v));
      else if constexpr (std::is_same_v<T, std::string>)
        items.push_back(c_string(v));
      else
        items.push_back(cpp_integer(v));
    }
    const char* kind = std::is_same_v<T, double> ? "reals" : std::is_same_v<T, std::string> ? "texts" : "integers";
    return fmt::format(".{}({}, {{{}}})", kind, name, joined(items));
  }
  static std::string cpp_integer(std::int64_t v) { return sym::to_cpp(Expr(v), nullptr, nullptr); }

  void print_output(std::size_t i) {
    const Output& o = p_.outputs[i];
    if (auto* v = std::get_if<View>(&o.value)) {
      std::string view = window(*v);
      const BufferKind kind = p_.buffers[v->buffer].kind;
      if (kind == BufferKind::Input)
        view = fmt::format("{}.alias({})", names_[v->buffer], view);
      else if (kind != BufferKind::Constant)
        view = fmt::format("owned({}, {})", view, names_[v->buffer]);
      line("outputs[{}] = {};", i, view);
    } else if (auto* e = std::get_if<Expr>(&o.value)) {
      const std::string value = size(*e);
      if (o.is_bool)
        line("outputs[{}] = number(COIL_B8, Size({}) != 0);", i, value);
      else
        line("outputs[{}] = number(COIL_I64, Size({}).value);", i, value);
    } else {
      line("outputs[{}] = number(COIL_F64, double({}));", i, real(std::get<double>(o.value)));
    }
  }

  // ---- The parts around it ----

  std::string head() const {
    const std::string& source = options_.source_name;
    std::string stem = source.substr(0, source.rfind('.'));
    std::string out = fmt::format(
        "// {}, compiled by coil. Only the runtime's C header is used.\n//   a program: g++ -std=c++20 -O2 -DCOIL_MAIN "
        "{} -o {} -lcoil_runtime && ./{} IN.safetensors OUT.safetensors\n",
        p_.name.empty() ? "A program" : p_.name, source, stem, stem);
    out +=
        fmt::format("//   a library: g++ -std=c++20 -O2 -fPIC -shared {} -o lib{}.so -lcoil_runtime\n", source, stem);
    if (std::any_of(places_.begin(), places_.end(), [](const auto& p) { return p.has_value(); }))
      out += fmt::format("// Weights are read from {}, which belongs beside it.\n", options_.weights_name);
    if (p_.check_lifetimes)
      out += "#define COIL_CHECK_LIFETIMES  // memory holds NaN before it is written to and after it was freed\n";
    if (on_gpu_)
      out += fmt::format(
          "// It runs on {}. At its end are the kernels' binaries for {}, and their PTX for later architectures.\n",
          to_string(p_.device), options_.isa);
    if (!has_host_kernels()) return out;
    if (const std::string flags = target_flags(options_.flags); !flags.empty())
      out += fmt::format(
          "// g++ takes what kernels need from the pragmas below. Other compilers want it as flags: {}\n", flags);
    return out;
  }

  /// Members of the device that others need as they are made.
  std::string device_members() const {
    std::string out = fmt::format("  Queue queue{{{}, {}, binaries(), {}, {}}};\n", c_string(to_string(p_.device)),
                                  c_string(options_.isa), options_.dependent_launches, exchanges(p_)),
                messages;
    for (const auto& [line, site] : failures_.sites)
      messages += (messages.empty() ? "" : ", ") + c_string(failure_of(p_.lines[line]));
    out += fmt::format("  Failures failures{{queue, {{{}}}}};\n", messages);
    for (const KernelEntry& k : p_.kernels)
      if (k.place == 0) out += fmt::format("  const void* {0} = queue.kernel(\"{0}\");\n", k.symbol);
    for (const auto& k : user_kernels(p_))
      out += fmt::format("  const void* {0} = queue.kernel(\"{0}\");  // {1} ({2})\n", k->symbol, k->name,
                         one_line(k->where));
    if (!landing_.ever.empty()) out += "  Landing landing{queue, failures};\n";
    return out;
  }

  /// Whether a kernel is the CPU's, be the CPU the program's device or beside it.
  bool is_host_kernel(const KernelEntry& k) const { return p_.device_of(k.place).is_host(); }
  bool is_on_host(BufferId b) const { return p_.device_of(p_.place_of(b)).is_host(); }
  bool has_host_kernels() const {
    return std::ranges::any_of(p_.kernels, [&](const KernelEntry& k) { return is_host_kernel(k); });
  }

  std::string require_isa() const {
    const std::string& isa = on_gpu_ ? options_.host_isa : options_.isa;
    if (isa.empty() || (on_gpu_ && !has_host_kernels())) return "";
    return fmt::format("  check(coil_require_isa({}));\n", c_string(isa));
  }

  std::string port(const std::string& name, DType d, std::size_t rank, bool mutated, bool unused) const {
    return fmt::format("    {{{}, {}, {}, {}, {}}},\n", c_string(name), dtype(d), rank, mutated ? 1 : 0,
                       unused ? 1 : 0);
  }

  std::string port_table(const char* side, const std::string& rows, std::size_t count) const {
    return fmt::format("constexpr size_t {}_count = {};\nconstexpr coil_port {}_ports[] = {{\n{}}};\n", side, count,
                       side, count ? rows : "    {},\n");
  }

  std::string ports() const {
    std::string in, out;
    for (const Input& i : p_.inputs)
      in += port(i.name, p_.buffers[i.buffer].dtype, p_.buffers[i.buffer].sizes.size(), i.mutated, i.unused);
    for (const Output& o : p_.outputs) {
      if (auto* v = std::get_if<View>(&o.value))
        out += port(o.name, v->dtype, v->sizes.size(), false, false);
      else
        out += port(o.name,
                    std::holds_alternative<double>(o.value) ? DType::F64
                    : o.is_bool                             ? DType::Bool
                                                            : DType::I64,
                    0, false, false);
    }
    return port_table("input", in, p_.inputs.size()) + port_table("output", out, p_.outputs.size()) + "\n";
  }

  std::string kernel_declarations() const {
    std::string out = on_gpu_ ? "std::vector<std::string_view> binaries();\n\n" : "";
    if (!has_host_kernels()) return out;
    out += "namespace kernels {\n";
    for (const KernelEntry& k : p_.kernels)
      if (is_host_kernel(k))
        out += fmt::format("extern \"C\" void {}(void* const*, const int64_t*, int64_t, int64_t);\n", k.symbol);
    return out + "}  // namespace kernels\n\n";
  }

  std::string kernels() const {
    if (!has_host_kernels()) return "";
    std::string body;
    for (const KernelEntry& k : p_.kernels)
      if (is_host_kernel(k)) body += "\n" + k.text;
    return "\n// ---- Kernels ----\n" + target_pragmas(options_.flags) + "namespace {\nnamespace kernels {\n" +
           codegen::prelude(options_.lanes, codegen::prelude_names(body)) + codegen::kernel_support() + body +
           "}  // namespace kernels\n}  // namespace\n";
  }

  /// Their text beside them, for people.
  std::string binaries() const {
    std::string out = "\n// ---- Kernels ----\nnamespace {\n\n", names;
    for (std::size_t i = 0; i < options_.binaries.size(); ++i) {
      out += fmt::format("constexpr char binary{}[] =\n    {};\n", i, binary_literal(options_.binaries[i]));
      names += fmt::format("{}{{binary{}, {}}}", i ? ", " : "", i, options_.binaries[i].size());
    }
    out += fmt::format("std::vector<std::string_view> binaries() {{ return {{{}}}; }}\n\n}}  // namespace\n", names);
    if (p_.kernels.empty() || std::ranges::all_of(options_.binaries, is_source)) return out;
    out += "#if 0\n";
    for (const KernelEntry& k : p_.kernels)
      if (k.place == 0) out += "\n" + k.text;
    return out + "#endif\n";
  }

  const Program& p_;
  const EmitOptions& options_;
  std::vector<CommPool> pools_;
  std::vector<std::optional<WeightPlace>> places_;
  std::set<std::string> taken_{"inputs",   "outputs",     "status",  "weights", "seeds", "weights_path",
                               "call",     "fail",        "check",   "window",  "owned", "number",
                               "integer",  "read_number", "kernels", "kept",    "queue", "failures",
                               "binaries", "current",     "landing", "on_host"};
  std::vector<std::string> names_;
  std::unordered_map<Expr, std::string> sizes_, sizes_outside_;
  std::map<std::size_t, Joined> joined_;
  std::set<BufferId> touched_;
  bool on_gpu_, over_host_, has_status_ = false;
  std::string part_;  ///< the function of the part that is open
  FailureSites failures_;
  LandingMemory landing_;
  std::size_t at_ = 0;  ///< place of the line that is being written
  std::set<BufferId> declared_;
  std::unordered_set<Expr> declared_symbols_;
  std::vector<Exprs> scopes_;  ///< for each open block, the sizes named in it
  std::size_t next_size_ = 0, next_op_ = 0, next_host_ = 0, next_map_ = 0;
  std::string run_, ops_, members_, weights_, initializers_;
};

/// Throws Error where the CPU exchanges values with other processes beside the program's device.
void refuse_collectives_beside(const Program& p) {
  for (const Line& l : p.lines)
    if (const auto* c = std::get_if<CallExtern>(&l); c && p.place_of(*c) != 0 && is_exchange(*c))
      fail("--emit=cpp: {} is carried out on {} in a program for {}; write a package instead", c->op,
           to_string(p.device_of(p.place_of(*c))), to_string(p.device));
}

/// Throws Error where operators are left to the host program: those that C knows take memory of the host.
void refuse_host_calls(const Program& p) {
  std::set<std::string_view> names;
  for (const Line& l : p.lines)
    if (auto* c = std::get_if<CallFallback>(&l)) names.insert(without_prefix(c->op));
  if (!names.empty())
    fail("--emit=cpp: programs for {} cannot leave {} to the host program; emit python or fx, which call torch",
         to_string(p.device), fmt::join(names, ", "));
}

}  // namespace

std::string cpp_cmake(const std::string& source_name) {
  std::string name = source_name.substr(0, source_name.rfind('.')), path;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  for (char c : source_name) path += (c == '"' || c == '\\' || c == '$' || c == ';' ? "\\" : "") + std::string(1, c);
  return device::fill(device::whole("wrapper_cpp/build.cmake"), {{"$name", name}, {"$file", path}});
}

bool CppEmitter::needs_binaries(const Program& p) const {
  const bool launches = std::ranges::any_of(p.kernels, [](const KernelEntry& k) { return k.place == 0; });
  return !p.device.is_host() && (launches || !user_kernels(p).empty());
}

std::string CppEmitter::emit(const Program& p, const EmitOptions& options) {
  require_device(p, "cpp");
  if (!p.device.is_host()) refuse_host_calls(p);
  refuse_collectives_beside(p);
  for (const auto& kernel : user_kernels(p))
    if (p.device.is_host())
      fail(
          "--emit=cpp: the user's kernel {} ({}) runs on the CPU through Triton's interpreter alone; emit python or fx",
          kernel->name, kernel->where);
  if (needs_binaries(p) && options.binaries.empty())
    fail("--emit=cpp writes the binaries of kernels for {} into the source, and none were given", to_string(p.device));
  Printer printer(p, options);
  std::string text = printer.print();
  locate(text, printer.body(), printer.begin, printer.ends);
  return text;
}

}  // namespace coil::wrapper
