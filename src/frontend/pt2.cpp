#include "frontend/pt2.h"

#include "frontend/graph_reader.h"
#include "frontend/guards.h"
#include "frontend/json.h"
#include "frontend/pickle.h"
#include "frontend/treespec.h"
#include "frontend/view_offsets.h"
#include "frontend/weights.h"
#include "fx/user_kernels.h"
#include "support/archive.h"
#include "support/error.h"

namespace coil::frontend {

using fx::Node;
using ops::Value;
using ops::Values;

namespace {

constexpr std::int64_t kSchemaMajor = 8;

/// Where the program lies: the top folder (any name, or none) and the program's own.
struct Location {
  std::string prefix, model;
  std::string entry() const { return prefix + "models/" + model + ".json"; }
};

Location find_program(const Archive& archive) {
  constexpr std::string_view kModels = "models/", kJson = ".json";
  std::vector<Location> found;
  for (const std::string& name : archive.names()) {
    const std::size_t at = name.find(kModels);
    if (at == std::string::npos || (at != 0 && name[at - 1] != '/') || !name.ends_with(kJson)) continue;
    const std::string model = name.substr(at + kModels.size(), name.size() - at - kModels.size() - kJson.size());
    if (name.size() < at + kModels.size() + kJson.size() || model.find('/') != std::string::npos) continue;
    if (std::count(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(at), '/') > 1) continue;
    found.push_back({name.substr(0, at), model});
  }
  if (found.empty()) fail("it holds no exported program (models/*.json)");
  for (const Location& l : found)
    if (l.model == "model") return l;
  if (found.size() == 1) return found[0];
  std::vector<std::string> names;
  for (const Location& l : found) names.push_back(l.model);
  fail("it holds several programs ({}), none of them named 'model'", fmt::join(names, ", "));
}

std::optional<CallSpec> read_call_spec(const Json& graph_module) {
  const Json* calls = graph_module.find("module_call_graph");
  if (!calls) return {};
  for (const Json* entry : calls->items()) {
    const Json* signature = entry->find("signature");
    if (!(*entry)["fqn"].as_string().empty() || !signature) continue;
    const Json* named_tuples = graph_module.find("treespec_namedtuple_fields");
    CallSpec spec;
    spec.in_text = (*signature)["in_spec"].as_string();
    spec.out_text = (*signature)["out_spec"].as_string();
    spec.in = parse_treespec(spec.in_text, named_tuples);
    spec.out = parse_treespec(spec.out_text, named_tuples);
    if (spec.in.children.size() != 2) (*signature)["in_spec"].fail("expected positional and named arguments");
    if (const Json* names = signature->find("forward_arg_names"))
      for (const Json* name : names->items()) spec.argument_names.push_back(name->as_string());
    return spec;
  }
  return {};
}

/// A path for each user input, in the order of the graph's.
std::vector<std::string> input_paths(const CallSpec& spec) {
  std::vector<std::string> paths;
  const TreeSpec &positional = spec.in.children[0], &named = spec.in.children[1];
  for (std::size_t i = 0; i < positional.children.size(); ++i) {
    const std::string name = i < spec.argument_names.size() ? spec.argument_names[i] : fmt::format("{}", i);
    const auto below = positional.children[i].paths(name);
    paths.insert(paths.end(), below.begin(), below.end());
  }
  const auto below = named.paths();
  paths.insert(paths.end(), below.begin(), below.end());
  return paths;
}

/// Reads the signature: which graph inputs are attributes and which are the user's, which results are the user's and
/// which are writes.
class ProgramReader {
 public:
  ProgramReader(const Json& program, fx::GraphModule& module, Weights& weights)
      : program_(program),
        graph_module_(program["graph_module"]),
        signature_(graph_module_["signature"]),
        module_(module),
        weights_(weights),
        symbols_(*module.env),
        spec_(read_call_spec(graph_module_)) {}

  void read() {
    if (const Json* ranges = program_.find("range_constraints")) symbols_.note_ranges(*ranges);
    GraphReader reader(graph_module_["graph"], module_, symbols_, unsupported_);
    read_inputs(reader);
    assert_guards();
    reader.read_calls();
    unsupported_.report();
    read_outputs(reader.outputs());
    symbols_.learn_ranges_of_expressions();
    module_.graph.lint();
  }
  const std::optional<CallSpec>& call_spec() const { return spec_; }
  const std::vector<std::int64_t>& output_of_leaf() const { return output_of_leaf_; }
  const std::map<std::string, AttributeKind>& attributes() const { return attributes_; }

 private:
  void read_inputs(GraphReader& reader) {
    const Json& specs = signature_["input_specs"];
    if (specs.items().size() != reader.inputs())
      specs.fail(fmt::format("{} entries for the graph's {} inputs", specs.items().size(), reader.inputs()));
    for (std::size_t i = 0; i < reader.inputs(); ++i) {
      const Json& spec = *specs.items()[i];
      const auto& [kind, value] = spec.only_member();
      if (kind == "parameter")
        add_attribute(reader, i, (*value)["parameter_name"].as_string(), AttributeKind::Parameter);
      else if (kind == "buffer")
        add_attribute(reader, i, (*value)["buffer_name"].as_string(), AttributeKind::Buffer);
      else if (kind == "tensor_constant")
        add_attribute(reader, i, (*value)["tensor_constant_name"].as_string(), AttributeKind::Constant);
      else if (kind == "user_input" || kind == "constant_input")
        add_input(reader, i, *value);
      else if (kind == "custom_obj")
        spec.fail(fmt::format("the program holds an object of class {}; custom objects are not supported",
                              (*value)["arg"]["class_fqn"].as_string()));
      else if (kind == "token")
        reader.add_token(i);
      else
        spec.fail(fmt::format("unknown kind of input '{}'", kind));
    }
    if (!spec_) return;
    const auto paths = input_paths(*spec_);
    if (paths.size() != module_.inputs.size())
      specs.fail(fmt::format("{} user inputs, but in_spec has {} leaves", module_.inputs.size(), paths.size()));
    for (std::size_t i = 0; i < paths.size(); ++i) module_.inputs[i].path = paths[i];
  }

  /// The graph is for inputs that torch's guards hold for. Those that Coil cannot read are left out.
  void assert_guards() {
    const Json* guards = program_.find("guards_code");
    if (!guards) return;
    for (const Json* guard : guards->items()) {
      const std::string& text = guard->as_string();
      const auto condition = parse_guard(text, [&](const GuardOperand& o) { return value_of(o); });
      if (!condition || only_tells_layouts(*condition) || module_.env->statically_known_true(*condition)) continue;
      const std::string target = "aten._assert_scalar.default";
      module_.graph.call(target, ops::normalize(*ops::find(target), {ops::Bool{*condition}, said(text)}, {}));
    }
  }
  static std::string said(const std::string& guard) {
    return fmt::format("the program was exported for inputs with {}", readable_guard(guard));
  }
  std::optional<sym::Expr> value_of(const GuardOperand& o) const {
    const Node* node = module_.graph.find(o.input);
    if (!node || node->opcode != fx::Opcode::Placeholder) return std::nullopt;
    if (o.kind == GuardOperand::Kind::Number)
      return node->meta.value.is<sym::Expr>() ? std::optional(node->meta.value.as_int()) : std::nullopt;
    if (!node->is_tensor()) return std::nullopt;
    const auto& list = o.kind == GuardOperand::Kind::Size ? node->tensor().sizes : node->tensor().strides;
    return o.dim < list.size() ? std::optional(list[o.dim]) : std::nullopt;
  }

  void add_attribute(GraphReader& reader, std::size_t i, const std::string& name, AttributeKind kind) {
    const Node* node = reader.add_attribute(i, name);
    attributes_.emplace(name, kind);
    if (module_.attributes.contains(name)) return;
    Tensor tensor = weights_.get(name);
    const auto& meta = node->tensor();
    const bool same = tensor.dtype == meta.dtype &&
                      std::equal(tensor.sizes.begin(), tensor.sizes.end(), meta.sizes.begin(), meta.sizes.end(),
                                 [](std::int64_t a, sym::Expr b) { return b.is_constant(a); });
    if (!same)
      fail("tensor '{}' is {}[{}] in the archive's data but {} in its graph", name, short_name(tensor.dtype),
           fmt::join(tensor.sizes, ", "), sym::to_string(meta));
    module_.attributes.emplace(name, std::move(tensor));
  }

  void add_input(GraphReader& reader, std::size_t i, const Json& spec) {
    const Json* name = spec.find("name");
    const Node* node = reader.add_placeholder(i, name ? name->as_string() : fmt::format("arg{}", i));
    module_.inputs.push_back({node->name, node->name, reader.input_constant(i)});
  }

  void read_outputs(const Values& results) {
    const Json& specs = signature_["output_specs"];
    if (specs.items().size() != results.size())
      specs.fail(fmt::format("{} entries for the graph's {} outputs", specs.items().size(), results.size()));
    Values user, writes;
    std::vector<fx::Mutation> mutations;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Json& spec = *specs.items()[i];
      const auto& [kind, value] = spec.only_member();
      auto write = [&](fx::Mutation::Target target, const Json& name) {
        if (!results[i].is<Node*>()) spec.fail("what is written is no tensor");
        mutations.push_back({target, name.as_string(), 0});
        writes.push_back(results[i]);
      };
      if (kind == "user_output" || kind == "loss_output")
        user.push_back(results[i]);
      else if (kind == "buffer_mutation")
        write(fx::Mutation::Target::Attribute, (*value)["buffer_name"]);
      else if (kind == "parameter_mutation")
        write(fx::Mutation::Target::Attribute, (*value)["parameter_name"]);
      else if (kind == "user_input_mutation")
        write(fx::Mutation::Target::Input, (*value)["user_input_name"]);
      else if (kind == "gradient_to_parameter" || kind == "gradient_to_user_input")
        spec.fail("exported training steps (gradients among the outputs) are not supported");
      else if (kind == "token")
        continue;
      else
        spec.fail(fmt::format("unknown kind of output '{}'", kind));
    }
    for (const fx::Mutation& m : mutations)
      if (m.kind == fx::Mutation::Target::Input ? !module_.graph.find(m.target)
                                                : !module_.attributes.contains(m.target))
        specs.fail(fmt::format("'{}' is written to but is no input", m.target));

    Values kept = name_outputs(user, specs);
    for (std::size_t i = 0; i < mutations.size(); ++i) {
      mutations[i].output = kept.size() + i;
      module_.mutations.push_back(mutations[i]);
    }
    kept.insert(kept.end(), writes.begin(), writes.end());
    module_.graph.output(std::move(kept));
  }

  /// Names the outputs; those that are None are left out.
  Values name_outputs(const Values& user, const Json& specs) {
    std::vector<std::string> paths;
    if (spec_)
      paths = spec_->out.paths();
    else
      for (std::size_t i = 0; i < user.size(); ++i) paths.push_back(fmt::format("{}", i));
    if (paths.size() != user.size())
      specs.fail(fmt::format("{} user outputs, but out_spec has {} leaves", user.size(), paths.size()));
    const bool bare = spec_ ? spec_->out.is_leaf() : user.size() == 1;
    Values kept;
    for (std::size_t i = 0; i < user.size(); ++i) {
      output_of_leaf_.push_back(user[i].is_none() ? -1 : static_cast<std::int64_t>(kept.size()));
      if (user[i].is_none()) continue;
      const std::string path = bare ? "output" : paths[i];
      if (user[i].is<std::string>()) fail("the output '{}' is a string; outputs are tensors and numbers", path);
      module_.outputs.push_back({path});
      kept.push_back(user[i]);
    }
    return kept;
  }

  const Json& program_;
  const Json& graph_module_;
  const Json& signature_;
  fx::GraphModule& module_;
  Weights& weights_;
  Symbols symbols_;
  UnsupportedOperators unsupported_;
  std::optional<CallSpec> spec_;
  std::vector<std::int64_t> output_of_leaf_;
  std::map<std::string, AttributeKind> attributes_;
};

template <class T>
Tensor scalar(DType dtype, T value) {
  Tensor t = Tensor::empty(dtype, {});
  *t.data<T>() = value;
  return t;
}

/// Appends the leaves of a sample input in the structure's order; false where the pickle has another structure.
bool flatten(const PickleValue& value, const TreeSpec& spec, std::vector<Tensor>& leaves) {
  using Kind = PickleValue::Kind;
  if (spec.is_leaf()) {
    switch (value.kind) {
      case Kind::Tensor: leaves.push_back(value.tensor); return true;
      case Kind::Int: leaves.push_back(scalar(DType::I64, value.integer)); return true;
      case Kind::Float: leaves.push_back(scalar(DType::F64, value.real)); return true;
      case Kind::Bool: leaves.push_back(scalar(DType::Bool, value.integer != 0)); return true;
      case Kind::None:
      case Kind::String: leaves.emplace_back(); return true;
      default: return false;
    }
  }
  auto named = [](const PickleValue& dict, const std::string& key) -> const PickleValue* {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& k = *dict.items[i];
      if (k.is(Kind::String) ? k.text == key : k.is(Kind::Int) && fmt::format("{}", k.integer) == key)
        return dict.items[i + 1];
    }
    return nullptr;
  };
  const bool by_key = value.is(Kind::Dict) || (value.is(Kind::Object) && value.state && value.state->is(Kind::Dict));
  const bool by_position = value.is(Kind::Tuple) || value.is(Kind::List) || (value.is(Kind::Object) && !by_key);
  if (!by_key && (!by_position || value.items.size() != spec.children.size())) return false;
  for (std::size_t i = 0; i < spec.children.size(); ++i) {
    const PickleValue* child =
        by_key ? named(value.is(Kind::Object) ? *value.state : value, spec.keys[i]) : value.items[i];
    if (!child || !flatten(*child, spec.children[i], leaves)) return false;
  }
  return true;
}

std::optional<std::vector<Tensor>> read_sample_inputs(const Archive& archive, const Location& location,
                                                      const std::optional<CallSpec>& spec) {
  const std::string entry = location.prefix + "data/sample_inputs/" + location.model + ".pt";
  if (!spec || !archive.contains(entry) || archive.size(entry) == 0)
    return {};  // torch writes an empty entry for a program without examples
  const Archive inner = Archive::from_bytes(archive.read(entry), entry);
  const Pickle pickle = Pickle::read_torch_save(inner);
  std::vector<Tensor> leaves;
  // Inputs of classes unknown here (or exported without real ones) are no reason to refuse the program.
  if (!flatten(pickle.root(), spec->in, leaves)) return {};
  return leaves;
}

}  // namespace

ExportedProgram read_pt2(const Archive& archive) {
  const Location location = find_program(archive);
  if (archive.contains(location.prefix + "byteorder") && archive.read(location.prefix + "byteorder").text() != "little")
    fail("it was written on a big-endian machine");
  const JsonDocument document(archive.read(location.entry()).text(), "models/" + location.model + ".json");
  const Json& program = document.root();
  if (const std::int64_t major = program["schema_version"]["major"].as_int(); major != kSchemaMajor)
    fail("it is written by version {} of the export schema; version {} (torch 2.8 and newer) is read", major,
         kSchemaMajor);

  ExportedProgram result;
  result.module = std::make_unique<fx::GraphModule>();
  Weights weights(archive, location.prefix, location.model);
  ProgramReader reader(program, *result.module, weights);
  reader.read();
  fill_in_view_offsets(*result.module);
  fx::take_user_kernels(*result.module);
  result.sample_inputs = read_sample_inputs(archive, location, reader.call_spec());
  result.call = reader.call_spec();
  result.output_of_leaf = reader.output_of_leaf();
  result.attributes = reader.attributes();
  if (const Json* version = program.find("torch_version")) result.torch_version = version->as_string();
  return result;
}

ExportedProgram read_pt2(const std::filesystem::path& path) {
  try {
    return read_pt2(Archive::open(path));
  } catch (const Error& e) {
    if (!e.op().empty() || !e.where().empty()) throw;  // about the program, not the file
    const std::string file = path.string();
    if (std::string_view(e.what()).find(file) != std::string_view::npos) throw;
    fail("cannot read {}: {}", file, e.what());
  }
}

}  // namespace coil::frontend
