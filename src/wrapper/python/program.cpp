#include "wrapper/python/program.h"

namespace coil::wrapper {

std::string PythonProgram::emit(const Program& p, const EmitOptions& options) {
  require_device(p, language());
  PythonFile file(p, options);
  file_ = &file;
  body_.clear(), given_.clear();
  depth_ = 0;
  failures_ = failure_sites(p);
  landing_ = landing_memory(p);
  inputs();
  const std::size_t begin = body_.size();
  std::vector<std::size_t> ends;
  for (at_ = 0; at_ < p.lines.size(); ++at_) {
    before_line(p.lines[at_]);
    std::visit(
        [&]<class T>(const T& x) {
          if constexpr (!std::is_same_v<T, DefineSymbol>) line(x);
        },
        p.lines[at_]);
    ends.push_back(body_.size());
  }
  end();
  for (std::size_t i = 0; i < p.inputs.size(); ++i)
    if (p.inputs[i].mutated) write_back(given_[i], file.name(p.inputs[i].buffer));
  std::vector<std::string> results, takes, gives;
  for (const Output& o : p.outputs) results.push_back(output(o)), gives.push_back(o.name);
  for (const Input& i : p.inputs) takes.push_back(i.name);
  give(python_tuple(results));
  auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  };
  const std::string docstring = fmt::format("{}\n\nInputs: {}\nOutputs: {}", usage(), listed(takes), listed(gives));
  std::string text = file.head(docstring) + file.support() + file.kernels() + file.user_kernels() + before() +
                     definitions() + around(body_);
  locate(text, body_, begin, ends);
  return text;
}

void PythonProgram::define_symbols() {
  for (const Line& l : file_->program().lines)
    if (auto* d = std::get_if<DefineSymbol>(&l)) line(*d);
}

std::string PythonProgram::arguments(const CallFallback& c, const std::function<std::string(sym::Expr)>& size,
                                     const std::function<std::string(const View&)>& view) const {
  std::string out;
  for (const ops::NamedArgument& a : c.arguments) {
    const std::string value = python_argument(a.value, size, [&](std::size_t k) { return view(operand(c, k)); });
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", a.keyword.empty() ? "" : a.keyword + "=", value);
  }
  return out;
}

}  // namespace coil::wrapper
