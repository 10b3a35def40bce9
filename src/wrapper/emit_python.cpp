#include "wrapper/emit_python.h"

#include <algorithm>

#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "support/error.h"
#include "wrapper/comm_pools.h"
#include "wrapper/python/support_text.h"

namespace coil::wrapper {

void PythonEmitter::write_back(const std::string& given, const std::string& used) {
  statement(fmt::format("write_back({}, {})", given, used));
}

void PythonEmitter::give(const std::string& results) { statement("return " + results); }

std::string PythonEmitter::before() {
  return file_->weights() + (file_->program().parts.empty() ? "" : python_parts()) +
         (library_calls_.empty() ? "" : "\n\n# ---- Library calls of this program ----\n\n" + library_calls_);
}

std::string PythonEmitter::around(const std::string& body) { return "\n\ndef call(args):\n" + body; }

void PythonEmitter::inputs() {
  library_calls_.clear(), told_.clear();
  const Program& p = file_->program();
  std::vector<std::string> names;
  for (const Input& in : p.inputs) {
    given_.push_back(in.unused    ? "_"
                     : in.mutated ? file_->unique("given_" + file_->name(in.buffer))
                                  : file_->name(in.buffer));
    names.push_back(given_.back());
  }
  statement(fmt::format("check(len(args) == {0}, f\"the program takes {0} inputs, but {{len(args)}} were given\")",
                        p.inputs.size()));
  if (!names.empty()) statement(fmt::format("{}{} = args", fmt::join(names, ", "), names.size() == 1 ? "," : ""));
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Buffer& b = p.buffers[p.inputs[i].buffer];
    if (!p.inputs[i].unused)
      statement(fmt::format("{0} = take({1}, {0}, {2}, {3}{4})", given_[i], python_string(p.inputs[i].name),
                            python_dtype(b.dtype), b.sizes.size(), on_device(p.inputs[i].buffer, "")));
  }
  define_symbols();
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& in = p.inputs[i];
    const Buffer& b = p.buffers[in.buffer];
    if (in.unused || b.sizes.empty()) {
      if (in.mutated && !in.unused) statement(fmt::format("{} = {}", file_->name(in.buffer), given_[i]));
      continue;
    }
    statement(fmt::format("{} = lay_out({}, {}, {}, {})", file_->name(in.buffer), python_string(in.name), given_[i],
                          file_->sizes(b.sizes), file_->sizes(b.strides)));
  }
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].kind == BufferKind::Constant && p.constants[p.buffers[b].index].seed)
      statement(fmt::format("{}.random_(-2**63, None)  # by torch's generator", file_->name(static_cast<BufferId>(b))));
  if (failures_.sites.empty()) return;
  told_ = file_->unique("failures");
  statement(fmt::format("{} = Failures({})", told_, failures_.sites.size()));
}

void PythonEmitter::before_line(const Line& l) {
  const Uses u = uses(l);
  std::vector<std::string> touched;
  for (const auto* buffers : {&u.reads, &u.writes})
    for (BufferId b : *buffers)
      if (landing_.ever.contains(landing_.memory[b]) && std::ranges::find(touched, file_->name(b)) == touched.end())
        touched.push_back(file_->name(b));
  if (!touched.empty()) statement(fmt::format("await_copies({})", fmt::join(touched, ", ")));
}

void PythonEmitter::end() {
  if (!landing_.ever.empty()) statement("await_copies()");
  check_failures(!failures_.sites.empty());
}

/// On the device the host has read its memory when it goes on; at home it waits, now or when somebody touches what
/// came.
void PythonEmitter::copy_between_devices(const CallExtern& c) {
  const std::string from = view(c.inputs.front()), to = view(c.outputs.front());
  const bool home = file_->device(c.outputs.front().buffer).is_host(),
             ahead = home && read(c.attributes, library_ops::copies::kNonBlocking);
  statement(fmt::format(fmt::runtime(ahead ? "copy_ahead({}, {})" : "{}.copy_({})"), to, from));
  check_failures(home && !ahead && failures_.behind.contains(at_));
}

void PythonEmitter::check_failures(bool wanted) {
  if (wanted) statement(told_ + ".check()");
}

std::string PythonEmitter::on_device(BufferId b, const char* keyword) const {
  const std::string name = file_->device_name(b);
  return name.empty() ? "" : fmt::format(", {}{}", keyword, name);
}

void PythonEmitter::line(const DefineSymbol& d) {
  const std::string& t = given_[d.input];
  std::string value = d.from == DefineSymbol::From::Size     ? fmt::format("{}.size({})", t, d.dim)
                      : d.from == DefineSymbol::From::Stride ? fmt::format("{}.stride({})", t, d.dim)
                                                             : fmt::format("int({})", t);
  if (!d.subtract.is_constant(0)) value = fmt::format("({} - ({}))", value, file_->size(d.subtract));
  if (!d.divide.is_constant(1)) value += fmt::format(" // ({})", file_->size(d.divide));
  statement(fmt::format("{} = {}", file_->symbol(d.symbol), value));
}

void PythonEmitter::line(const Assert& a) {
  statement(fmt::format("check({}, {})", file_->size(a.condition), python_string(a.message)));
}

void PythonEmitter::line(const Allocate& a) {
  const Buffer& b = file_->program().buffers[a.buffer];
  if (landing_.ever.contains(landing_.memory[a.buffer]))
    return statement(fmt::format("{} = page_locked({}, {}, {})", file_->name(a.buffer), file_->sizes(b.sizes),
                                 file_->sizes(b.strides), python_dtype(b.dtype)));
  statement(fmt::format("{} = torch.empty_strided({}, {}, dtype={}{})", file_->name(a.buffer), file_->sizes(b.sizes),
                        file_->sizes(b.strides), python_dtype(b.dtype), on_device(a.buffer, "device=")));
}

void PythonEmitter::line(const Reuse& r) {
  const Program& p = file_->program();
  const Buffer &from = p.buffers[r.from], &to = p.buffers[r.to];
  const bool same = from.dtype == to.dtype && from.sizes == to.sizes && from.strides == to.strides;
  std::string value = file_->name(r.from);
  if (!same)
    value = fmt::format("window({}, {}, {}, {})", value, python_dtype(to.dtype), file_->sizes(to.sizes),
                        file_->sizes(to.strides));
  statement(fmt::format("{} = {}  # reuse", file_->name(r.to), value));
}

void PythonEmitter::line(const AllocateComm& a) {
  const Program& p = file_->program();
  const Buffer& b = p.buffers[a.buffer];
  // Without other ranks: the operand is the sum.
  if (peer_tables(p).contains(a.buffer))
    return statement(fmt::format("{} = torch.zeros({}, dtype={}, device=DEVICE)", file_->name(a.buffer),
                                 file_->sizes(b.sizes), python_dtype(b.dtype)));
  const std::vector<CommPool> pools = comm_pools(p);
  const CommPool& pool = pools[comm_pool_of(pools, b)];
  statement(fmt::format("{} = window(comm_pool({}, {}), {}, {}, {}, {})", file_->name(a.buffer),
                        python_string(pool.layout.group), pool.bytes, python_dtype(b.dtype), file_->sizes(b.sizes),
                        file_->sizes(b.strides), a.offset / static_cast<std::int64_t>(size_of(b.dtype))));
}

void PythonEmitter::line(const FreeComm& f) { statement("del " + file_->name(f.buffer)); }

void PythonEmitter::line(const BeginPart& b) {
  const Program& p = file_->program();
  const Part& part = p.parts[b.part];
  std::vector<std::string> written;
  for (std::size_t k = 0; k < part.inputs.size(); ++k)
    if (part.written[k]) written.push_back(file_->name(part.inputs[k]));
  open_part_ = &part;
  part_ = file_->unique(fmt::format("part_{}", b.part));
  let_go_.clear();
  statement(fmt::format("def {}(given):", part_));
  ++depth_;
  if (!written.empty()) statement(fmt::format("# It writes to {}.", fmt::join(written, ", ")));
  if (const std::vector<std::string> names = given_to(part); !names.empty())
    statement(fmt::format("{}{} = given", fmt::join(names, ", "), names.size() == 1 ? "," : ""));
  statement("given.clear()");
}

void PythonEmitter::line(const EndPart& e) {
  const Part& part = file_->program().parts[e.part];
  std::vector<std::string> outputs, let_go;
  for (BufferId b : part.outputs) outputs.push_back(file_->name(b));
  for (BufferId b : let_go_) let_go.push_back(file_->name(b));
  statement(fmt::format("return [{}]", fmt::join(outputs, ", ")));
  --depth_;
  statement(fmt::format("given = [{}]", fmt::join(given_to(part), ", ")));
  if (!let_go.empty()) statement(fmt::format("del {}", fmt::join(let_go, ", ")));
  statement(fmt::format("{}run_part({}, {}, given)",
                        outputs.empty() ? "" : fmt::format("[{}] = ", fmt::join(outputs, ", ")), e.part, part_));
  open_part_ = nullptr;
}

std::vector<std::string> PythonEmitter::given_to(const Part& part) {
  std::vector<std::string> names;
  for (BufferId b : part.inputs) names.push_back(file_->name(b));
  for (sym::Expr s : part.symbols) names.push_back(file_->symbol(s));
  if (!told_.empty()) names.push_back(told_);
  return names;
}

void PythonEmitter::line(const Free& f) {
  if (open_part_ && std::ranges::find(open_part_->inputs, f.buffer) != open_part_->inputs.end())
    let_go_.insert(f.buffer);
  statement("del " + file_->name(f.buffer));
}

void PythonEmitter::line(const ReadSymbol& r) {
  const bool is_float = file_->program().buffers[r.source].dtype == DType::F64;
  check_failures(failures_.behind.contains(at_));
  statement(fmt::format("{} = int({}{})", file_->symbol(r.symbol), file_->name(r.source),
                        is_float ? ".view(torch.int64)" : ""));
}

void PythonEmitter::line(const SetSymbol& s) {
  statement(fmt::format("{} = {}", file_->symbol(s.symbol), file_->size(s.value)));
}

void PythonEmitter::line(const Control& c) {
  using Kind = Control::Kind;
  if (c.closes()) {
    statement("pass");  // a block may be empty
    --depth_;
  }
  switch (c.kind) {
    case Kind::If: statement(fmt::format("if {}:", file_->size(sym::ne(c.condition, 0)))); break;
    case Kind::Else: statement("else:"); break;
    case Kind::Loop:
      statement(fmt::format("for {} in {}:", file_->symbol(c.counter),
                            c.extent.is_constant(sym::Range::kMax) ? "itertools.count()"
                                                                   : fmt::format("range({})", file_->size(c.extent))));
      break;
    case Kind::BreakUnless:
      statement(fmt::format("if not ({}):", file_->size(sym::ne(c.condition, 0))));
      ++depth_;
      statement("break");
      --depth_;
      break;
    case Kind::EndIf:
    case Kind::EndLoop: break;
  }
  if (c.opens()) ++depth_;
}

void PythonEmitter::line(const CallKernel& c) {
  std::vector<std::string> buffers, scalars;
  for (BufferId b : c.buffers) buffers.push_back(file_->name(b));
  for (sym::Expr e : c.scalars) scalars.push_back(file_->size(e));
  origins(c.origins, c.where);
  const std::string &symbol = file_->program().kernels[c.kernel].symbol,
                    given = fmt::format("[{}]", fmt::join(buffers, ", ")),
                    numbers = fmt::format("[{}]", fmt::join(scalars, ", "));
  if (!c.launch) check_failures(failures_.guarded.contains(at_));
  if (c.when) {
    statement(fmt::format("if {}:", file_->size(*c.when)));
    ++depth_;
  }
  statement(c.launch ? kernel_launch(symbol, given, numbers, *c.launch, status(c.failure))
                     : kernel_call(symbol, given, numbers, file_->size(c.extent), c.grain, c.failure));
  if (c.when) --depth_;
}

std::string PythonEmitter::status(const std::string& failure) const {
  const auto site = failures_.sites.find(at_);
  if (site != failures_.sites.end()) return fmt::format("{}({}, {})", told_, site->second, python_string(failure));
  return failures_.guarded.contains(at_) ? told_ + ".any" : "";
}

std::string PythonEmitter::kernel_launch(const std::string& symbol, const std::string& buffers,
                                         const std::string& scalars, const codegen::SymbolicLaunch& launch,
                                         const std::string& failure) {
  sym::Exprs grid = launch.grid;
  while (grid.size() > 1 && grid.back().is_constant(1)) grid.pop_back();
  const std::string shared = launch.shared_bytes.is_constant(0) ? "" : ", shared=" + file_->size(launch.shared_bytes);
  std::string maps;
  for (const codegen::MappedTensor& m : launch.maps)
    maps += fmt::format("({}, {}, {}, {}, {}, [{}], {}), ", m.pointer, file_->size(m.offset), file_->sizes(m.sizes),
                        file_->sizes(m.strides), m.map.element, fmt::join(m.map.box, ", "), m.map.swizzle);
  if (!maps.empty()) maps = fmt::format(", maps=[{}]", maps.substr(0, maps.size() - 2));
  return fmt::format("{}({}, {}, grid={}, block={}{}{}{})", symbol, buffers, scalars, file_->sizes(grid), launch.block,
                     shared, maps, failure.empty() ? "" : ", failure=" + failure);
}

std::string PythonEmitter::kernel_call(const std::string& symbol, const std::string& buffers,
                                       const std::string& scalars, const std::string& extent, std::int64_t grain,
                                       const std::string& failure) {
  return fmt::format("{}({}, {}, extent={}, grain={}{})", symbol, buffers, scalars, extent, grain,
                     failure.empty() ? "" : ", failure=" + python_string(failure));
}

void PythonEmitter::line(const CallExtern& c) {
  if (library_ops::has(c.op, library_ops::Trait::DeviceCopy)) {
    check_failures(failures_.guarded.contains(at_));
    origins(c.origins, c.where);
    return copy_between_devices(c);
  }
  const std::string site = file_->unique(c.op);
  std::string attributes;
  for (const auto& [key, value] : c.attributes) attributes += fmt::format(", {}={}", key, python_attribute(value));
  const Program& p = file_->program();
  library_calls_ +=
      fmt::format("{} = {}({}{})\n", site, p.device_of(p.place_of(c)).is_host() ? "HostLibraryCall" : "LibraryCall",
                  python_string(c.op), attributes);
  check_failures(failures_.guarded.contains(at_));
  origins(c.origins, c.where);
  statement(fmt::format("{}({}, {})", site, views(c.inputs), views(c.outputs)));
}

void PythonEmitter::line(const CallFallback& c) {
  origins(c.origins, c.where);
  check_failures(failures_.guarded.contains(at_));
  for (std::size_t k = 0; k < c.writes.size(); ++k)
    statement(fmt::format("{}.copy_({})", view(*c.outputs[own_results(c) + k]), view(c.inputs[c.writes[k]])));
  const std::string given =
      arguments(c, [&](sym::Expr e) { return file_->size(e); }, [&](const View& v) { return view(v); });
  const std::string results = file_->unique("results");
  statement(fmt::format("{} = {}({})", results, python_operator(c.op), given));
  for (std::size_t k = 0; k < own_results(c); ++k)
    if (c.outputs[k])
      statement(fmt::format("{}.copy_({}{})", view(*c.outputs[k]), results, c.is_list ? fmt::format("[{}]", k) : ""));
  statement("del " + results);
}

void PythonEmitter::line(const CallUserKernel& c) {
  origins(c.origins, c.where);
  check_failures(failures_.guarded.contains(at_) && !c.kernel->has_status());
  std::vector<std::string> numbers;
  for (sym::Expr e : c.numbers) numbers.push_back(file_->size(e));
  const std::string tensors = views(c.tensors), grid = file_->sizes(c.grid);
  std::string failure;
  if (c.kernel->has_status())
    failure = ", failure=" + (file_->program().device.is_host() ? python_string(c.failure) : status(c.failure));
  statement(fmt::format("{}({}, [{}], grid={}{})", c.kernel->symbol, tensors, fmt::join(numbers, ", "), grid, failure));
}

void PythonEmitter::origins(const std::set<std::string>& origins, const std::string& where) {
  if (const std::string from = PythonFile::origins(origins, where); !from.empty()) statement("# " + from);
}

std::string PythonEmitter::view(const View& v) {
  if (is_whole(file_->program(), v)) return file_->name(v.buffer);
  const std::string offset = v.offset.is_constant(0) ? "" : ", " + file_->size(v.offset);
  return fmt::format("window({}, {}, {}, {}{})", file_->name(v.buffer), python_dtype(v.dtype), file_->sizes(v.sizes),
                     file_->sizes(v.strides), offset);
}

std::string PythonEmitter::views(const std::vector<View>& all) {
  std::vector<std::string> out;
  for (const View& v : all) out.push_back(view(v));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

std::string PythonEmitter::output(const Output& o) {
  if (auto* v = std::get_if<View>(&o.value)) return view(*v);
  if (auto* e = std::get_if<sym::Expr>(&o.value))
    return o.is_bool ? fmt::format("bool({})", file_->size(*e)) : fmt::format("int({})", file_->size(*e));
  return python_real(std::get<double>(o.value));
}

}  // namespace coil::wrapper
