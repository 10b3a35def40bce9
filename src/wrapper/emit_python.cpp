#include "wrapper/emit_python.h"

#include "support/error.h"

namespace coil::wrapper {

std::string PythonEmitter::emit(const Program& p, const EmitOptions& options) {
  require_cpu(p, "python");
  PythonFile file(p, options);
  file_ = &file;
  body_.clear(), library_calls_.clear(), given_.clear();
  depth_ = 0;
  inputs();
  const std::size_t begin = body_.size();
  std::vector<std::size_t> ends;
  for (const Line& l : p.lines) {
    std::visit([&]<class T>(const T& x) {
      if constexpr (!std::is_same_v<T, DefineSymbol>) line(x);  // those stand with the inputs that they are read from
    }, l);
    ends.push_back(body_.size());
  }
  for (std::size_t i = 0; i < p.inputs.size(); ++i)
    if (p.inputs[i].mutated) statement(fmt::format("write_back({}, {})", given_[i], file.name(p.inputs[i].buffer)));
  std::vector<std::string> results, takes, gives;
  for (const Output& o : p.outputs) results.push_back(output(o)), gives.push_back(o.name);
  for (const Input& i : p.inputs) takes.push_back(i.name);
  statement("return " + python_tuple(results));
  auto listed = [](const std::vector<std::string>& names) { return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")); };
  const std::string usage = fmt::format("call(args) takes the list of flat inputs and gives the tuple of flat outputs.\n\nInputs: {}\nOutputs: {}", listed(takes), listed(gives));
  if (!library_calls_.empty()) library_calls_ = "\n\n# ---- Library calls of this program ----\n\n" + library_calls_;
  std::string text = file.head(usage) + file.support() + file.kernels() + file.weights() + library_calls_ + definitions() + "\n\ndef call(args):\n" + body_;
  locate(text, body_, begin, ends);
  return text;
}

void PythonEmitter::inputs() {
  const Program& p = file_->program();
  std::vector<std::string> names;
  for (const Input& in : p.inputs) {
    given_.push_back(in.unused ? "_" : in.mutated ? file_->unique("given_" + file_->name(in.buffer)) : file_->name(in.buffer));
    names.push_back(given_.back());
  }
  statement(fmt::format("check(len(args) == {0}, f\"the program takes {0} inputs, but {{len(args)}} were given\")", p.inputs.size()));
  if (!names.empty()) statement(fmt::format("{}{} = args", fmt::join(names, ", "), names.size() == 1 ? "," : ""));
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Buffer& b = p.buffers[p.inputs[i].buffer];
    if (!p.inputs[i].unused) statement(fmt::format("{0} = take({1}, {0}, {2}, {3})", given_[i], python_string(p.inputs[i].name), python_dtype(b.dtype), b.sizes.size()));
  }
  for (const Line& l : p.lines)
    if (auto* d = std::get_if<DefineSymbol>(&l)) line(*d);
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& in = p.inputs[i];
    const Buffer& b = p.buffers[in.buffer];
    if (in.unused || b.sizes.empty()) {
      if (in.mutated && !in.unused) statement(fmt::format("{} = {}", file_->name(in.buffer), given_[i]));
      continue;
    }
    statement(fmt::format("{} = lay_out({}, {}, {}, {})", file_->name(in.buffer), python_string(in.name), given_[i], file_->sizes(b.sizes), file_->sizes(b.strides)));
  }
}

void PythonEmitter::line(const DefineSymbol& d) {
  const std::string& t = given_[d.input];
  std::string value = d.from == DefineSymbol::From::Size ? fmt::format("{}.size({})", t, d.dim) : d.from == DefineSymbol::From::Stride ? fmt::format("{}.stride({})", t, d.dim) : fmt::format("int({})", t);
  if (!d.subtract.is_constant(0)) value = fmt::format("({} - ({}))", value, file_->size(d.subtract));
  if (!d.divide.is_constant(1)) value += fmt::format(" // ({})", file_->size(d.divide));
  statement(fmt::format("{} = {}", file_->symbol(d.symbol), value));
}

void PythonEmitter::line(const Assert& a) { statement(fmt::format("check({}, {})", file_->size(a.condition), python_string(a.message))); }

void PythonEmitter::line(const DefineKernel&) {}

void PythonEmitter::line(const Allocate& a) {
  const Buffer& b = file_->program().buffers[a.buffer];
  statement(fmt::format("{} = torch.empty_strided({}, {}, dtype={})", file_->name(a.buffer), file_->sizes(b.sizes), file_->sizes(b.strides), python_dtype(b.dtype)));
}

void PythonEmitter::line(const Reuse& r) {
  const Program& p = file_->program();
  const Buffer &from = p.buffers[r.from], &to = p.buffers[r.to];
  const bool same = from.dtype == to.dtype && from.sizes == to.sizes && from.strides == to.strides;
  std::string value = file_->name(r.from);
  if (!same) value = fmt::format("window({}, {}, {}, {})", value, python_dtype(to.dtype), file_->sizes(to.sizes), file_->sizes(to.strides));
  statement(fmt::format("{} = {}  # reuse", file_->name(r.to), value));
}

void PythonEmitter::line(const Free& f) { statement("del " + file_->name(f.buffer)); }

void PythonEmitter::line(const ReadSymbol& r) { statement(fmt::format("{} = int({})", file_->symbol(r.symbol), file_->name(r.source))); }

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
      statement(fmt::format("for {} in {}:", file_->symbol(c.counter), c.extent.is_constant(sym::Range::kMax) ? "itertools.count()" : fmt::format("range({})", file_->size(c.extent))));
      break;
    case Kind::BreakUnless:
      statement(fmt::format("if not ({}):", file_->size(sym::ne(c.condition, 0))));
      ++depth_;
      statement("break");
      --depth_;
      break;
    case Kind::EndIf: case Kind::EndLoop: break;
  }
  if (c.opens()) ++depth_;
}

void PythonEmitter::line(const CallKernel& c) {
  std::vector<std::string> buffers, scalars;
  for (BufferId b : c.buffers) buffers.push_back(file_->name(b));
  for (sym::Expr e : c.scalars) scalars.push_back(file_->size(e));
  if (const std::string from = PythonFile::origins(c.origins, c.where); !from.empty()) statement("# " + from);
  statement(kernel_call(file_->program().kernels[c.kernel].symbol, fmt::format("[{}]", fmt::join(buffers, ", ")), fmt::format("[{}]", fmt::join(scalars, ", ")), file_->size(c.extent), c.grain, c.failure));
}

std::string PythonEmitter::kernel_call(const std::string& symbol, const std::string& buffers, const std::string& scalars, const std::string& extent, std::int64_t grain, const std::string& failure) {
  return fmt::format("{}({}, {}, extent={}, grain={}{})", symbol, buffers, scalars, extent, grain, failure.empty() ? "" : ", failure=" + python_string(failure));
}

void PythonEmitter::line(const CallExtern& c) {
  const std::string site = file_->unique(c.op);
  std::string attributes;
  for (const auto& [key, value] : c.attributes) attributes += fmt::format(", {}={}", key, python_attribute(value));
  library_calls_ += fmt::format("{} = LibraryCall({}{})\n", site, python_string(c.op), attributes);
  if (const std::string from = PythonFile::origins(c.origins, c.where); !from.empty()) statement("# " + from);
  statement(fmt::format("{}({}, {})", site, views(c.inputs), views(c.outputs)));
}

void PythonEmitter::line(const CallFallback& c) {
  std::string arguments;
  for (const ops::NamedArgument& a : c.arguments) {
    const std::string value = python_argument(a.value, [&](sym::Expr e) { return file_->size(e); }, [&](std::size_t k) { return view(c.inputs.at(k)); });
    arguments += fmt::format("{}{}{}", arguments.empty() ? "" : ", ", a.keyword.empty() ? "" : a.keyword + "=", value);
  }
  if (const std::string from = PythonFile::origins(c.origins, c.where); !from.empty()) statement("# " + from);
  const std::string results = file_->unique("results");
  statement(fmt::format("{} = {}({})", results, python_operator(c.op), arguments));
  for (std::size_t k = 0; k < c.outputs.size(); ++k)
    if (c.outputs[k]) statement(fmt::format("{}.copy_({}{})", view(*c.outputs[k]), results, c.is_list ? fmt::format("[{}]", k) : ""));
  statement("del " + results);
}

std::string PythonEmitter::view(const View& v) {
  if (is_whole(file_->program(), v)) return file_->name(v.buffer);
  const std::string offset = v.offset.is_constant(0) ? "" : ", " + file_->size(v.offset);
  return fmt::format("window({}, {}, {}, {}{})", file_->name(v.buffer), python_dtype(v.dtype), file_->sizes(v.sizes), file_->sizes(v.strides), offset);
}

std::string PythonEmitter::views(const std::vector<View>& all) {
  std::vector<std::string> out;
  for (const View& v : all) out.push_back(view(v));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

std::string PythonEmitter::output(const Output& o) {
  if (auto* v = std::get_if<View>(&o.value)) return view(*v);
  if (auto* e = std::get_if<sym::Expr>(&o.value)) return o.is_bool ? fmt::format("bool({})", file_->size(*e)) : fmt::format("int({})", file_->size(*e));
  return python_real(std::get<double>(o.value));
}

}  // namespace coil::wrapper
