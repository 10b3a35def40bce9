#include "wrapper/emit_fx.h"

#include "library_ops/table.h"
#include "ops/value.h"
#include "support/error.h"
#include "sym/declarations.h"
#include "sym/floats.h"
#include "sym/node.h"
#include "wrapper/comm_pools.h"
#include "wrapper/python/graph_text.h"
#include "wrapper/python/support_text.h"

namespace coil::wrapper {
namespace {

/// The function of a node that computes with floats. (math's give floats and integers as Python does.)
const char* function_of(FloatFunction f) {
  switch (f) {
    case FloatFunction::FromInt: return "torch.sym_float";
    case FloatFunction::IntTrueDiv:
    case FloatFunction::Div: return "operator.truediv";
    case FloatFunction::Add: return "operator.add";
    case FloatFunction::Mul: return "operator.mul";
    case FloatFunction::Pow: return "operator.pow";
    case FloatFunction::Mod: return "operator.mod";
    case FloatFunction::Min: return "torch.sym_min";
    case FloatFunction::Max: return "torch.sym_max";
    case FloatFunction::Abs: return "operator.abs";
    case FloatFunction::Floor:
    case FloatFunction::FloorToInt: return "math.floor";
    case FloatFunction::Sqrt: return "torch._sym_sqrt";
    case FloatFunction::Exp: return "math.exp";
    case FloatFunction::Log: return "math.log";
    case FloatFunction::Log2: return "torch._sym_log2";
    case FloatFunction::Sin: return "torch._sym_sin";
    case FloatFunction::Cos: return "torch._sym_cos";
    case FloatFunction::Tan: return "torch._sym_tan";
    case FloatFunction::Asin: return "torch._sym_asin";
    case FloatFunction::Acos: return "torch._sym_acos";
    case FloatFunction::Atan: return "torch._sym_atan";
    case FloatFunction::Sinh: return "torch._sym_sinh";
    case FloatFunction::Cosh: return "torch._sym_cosh";
    case FloatFunction::Tanh: return "torch._sym_tanh";
    case FloatFunction::TruncToInt: return "math.trunc";
    case FloatFunction::CeilToInt: return "math.ceil";
    case FloatFunction::RoundToInt:
    case FloatFunction::RoundDecimal: return "round";
    case FloatFunction::Eq: return "operator.eq";
    case FloatFunction::Ne: return "operator.ne";
    case FloatFunction::Lt: return "operator.lt";
    case FloatFunction::Le: return "operator.le";
    case FloatFunction::OfBits: return "torch.ops.coil_wrapper.float_of_bits.default";
    case FloatFunction::ToBits: return "torch.ops.coil_wrapper.bits_of_float.default";
  }
  return "";
}

/// The function of a node that computes a size from two.
const char* function_of(sym::Kind k) {
  using sym::Kind;
  switch (k) {
    case Kind::Add: return "operator.add";
    case Kind::Mul: return "operator.mul";
    case Kind::FloorDiv: return "operator.floordiv";
    case Kind::Mod: return "operator.mod";
    case Kind::Min: return "torch.sym_min";
    case Kind::Max: return "torch.sym_max";
    case Kind::Pow: return "operator.pow";
    case Kind::Eq: return "operator.eq";
    case Kind::Ne: return "operator.ne";
    case Kind::Lt: return "operator.lt";
    case Kind::Le: return "operator.le";
    case Kind::And:
    case Kind::BitAnd: return "operator.and_";
    case Kind::Or:
    case Kind::BitOr: return "operator.or_";
    case Kind::BitXor: return "operator.xor";
    case Kind::ShiftLeft: return "operator.lshift";
    case Kind::ShiftRight: return "operator.rshift";
    default: break;
  }
  COIL_CHECK(false, "no node computes this kind of expression");
  return "";
}

std::string text_of(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); }

/// Attributes as JSON: what the operator takes, so that the graph alone says what the call does.
std::string json(const library_ops::Attributes& attributes) {
  std::string out;
  for (const auto& [key, value] : attributes) {
    std::string text = python_attribute(value);
    for (const auto& [from, to] : {std::pair{"math.nan", "NaN"}, {"-math.inf", "-Infinity"}, {"math.inf", "Infinity"}})
      if (text == from) text = to;
    out += fmt::format("{}\"{}\": {}", out.empty() ? "" : ", ", key, text);
  }
  return "{" + out + "}";
}

}  // namespace

// ---- Types of nodes in the words of the text form ----

std::string FxEmitter::type_of(const View& v, sym::Expr offset) const {
  return ops::to_string(ops::Value(sym::TensorMeta{v.dtype, file_->device(v.buffer), v.sizes, v.strides, offset}));
}

std::string FxEmitter::type_of(sym::Expr e, const std::string& name) const {
  if (sym::is_float(e)) return ops::to_string(ops::Value(ops::SymFloat{name, e}));
  return ops::to_string(sym::is_boolean(e) ? ops::Value(ops::Bool{e}) : ops::Value(e));
}

std::string FxEmitter::type_of(BufferId b) const {
  const Buffer& buffer = file_->program().buffers[b];
  auto moved = moved_.find(b);
  return type_of({b, buffer.dtype, buffer.sizes, buffer.strides, 0},
                 moved == moved_.end() ? sym::Expr(0) : moved->second);
}

std::string FxEmitter::symbols_in_text() const {
  std::string out = sym::declarations(*file_->program().env);
  for (const auto& [name, declared] : own_symbols_)
    if (!declared.empty()) out += (out.empty() ? "" : ", ") + declared;
  return out;
}

/// A symbol of this text alone; `most`: the end of its range, empty where it is declared already.
sym::Expr FxEmitter::own_symbol(std::string name, const char* most) {
  const std::vector<sym::Expr> known = file_->program().env->symbols();
  while (std::any_of(known.begin(), known.end(), [&](sym::Expr s) { return s.name() == name; }) ||
         own_symbols_.contains(name))
    name += "_";
  own_symbols_.emplace(name, *most ? fmt::format("{}: unbacked [0, {}]", name, most) : "");
  return file_->program().env->context().symbol(name, sym::SymbolKind::Unbacked);
}

/// Inputs begin anywhere in their storage: those whose views are taken have a symbol for where.
void FxEmitter::name_storage_offsets() {
  const Program& p = file_->program();
  own_symbols_.clear(), moved_.clear();
  auto see = [&](const View& v) {
    if (p.buffers[v.buffer].kind != BufferKind::Input || is_whole(p, v) || moved_.contains(v.buffer)) return;
    moved_.emplace(v.buffer, own_symbol(file_->name(v.buffer) + "_offset", "inf"));
  };
  for (const Line& l : p.lines) {
    if (auto* r = std::get_if<Reuse>(&l))
      see({r->from, p.buffers[r->to].dtype, p.buffers[r->to].sizes, p.buffers[r->to].strides, 0});
    if (auto* c = std::get_if<CallExtern>(&l)) {
      for (const View& v : c->inputs) see(v);
      for (const View& v : c->outputs) see(v);
    }
    if (auto* c = std::get_if<CallUserKernel>(&l))
      for (const View& v : c->tensors) see(v);
    if (auto* c = std::get_if<CallFallback>(&l)) {
      for (const View& v : c->inputs) see(v);
      for (const auto& v : c->outputs)
        if (v) see(*v);
    }
  }
  for (const Output& o : p.outputs)
    if (auto* v = std::get_if<View>(&o.value)) see(*v);
}

void FxEmitter::write_back(const std::string& given, const std::string& used) {
  node("write_back", fmt::format("torch.ops.coil_wrapper.write_back.default, {}, {}", given, used));
}

void FxEmitter::give(const std::string& results) { statement(fmt::format("graph.output({})", results)); }

std::string FxEmitter::before() {
  return python_fx_support(file_->program().device) + python_graph_text() + file_->kernel_table();
}

std::string FxEmitter::around(const std::string& body) {
  return "\n\nSYMBOLS = " + python_string(symbols_in_text()) +
         "\n\n\ndef load():\n    program = Program()\n    root, graph, node = program.root, program.graph, "
         "program.node\n\n" +
         body +
         "    graph.lint()\n    return torch.fx.GraphModule(root, graph)\n\n\nif __name__ == \"__main__\":\n    "
         "print(text(), end=\"\")\n";
}

std::string FxEmitter::node(const std::string& wanted, const std::string& arguments, const std::string& type) {
  const std::string name = file_->unique(wanted);
  assign(name, arguments, type);
  return name;
}

void FxEmitter::assign(const std::string& name, const std::string& arguments, const std::string& type) {
  statement(fmt::format("{} = node({}, {}{})", name, python_string(name), arguments,
                        type.empty() ? "" : ", type=" + python_string(type)));
}

void FxEmitter::inputs() {
  values_.clear(), storage_offsets_.clear(), like_.clear(), blocks_.clear();
  const Program& p = file_->program();
  joined_ = joined_values(p);
  name_storage_offsets();
  auto is_number = [&](const Input& in) { return p.buffers[in.buffer].sizes.empty(); };
  for (const Input& in : p.inputs) {
    const std::string& name = file_->name(in.buffer);
    given_.push_back(in.unused ? name : file_->unique("given_" + name));
    // A number may come as Python's; of others the text says the strides that kernels assume.
    statement(fmt::format("{} = typed(graph.placeholder({}), {})", given_.back(), python_string(name),
                          is_number(in) ? "None" : python_string(type_of(in.buffer))));
  }
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& in = p.inputs[i];
    if (!in.unused && is_number(in))
      assign(file_->name(in.buffer),
             fmt::format("torch.ops.coil_wrapper.take, {}, {}, {}", given_[i], python_string(in.name),
                         python_dtype(p.buffers[in.buffer].dtype) + on_device(in.buffer)),
             type_of(in.buffer));
  }
  define_symbols();
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& in = p.inputs[i];
    const Buffer& b = p.buffers[in.buffer];
    if (in.unused || is_number(in)) continue;
    if (like_.empty()) like_ = file_->name(in.buffer);
    const std::string wanted = sizes(b.sizes), strides = sizes(b.strides);
    assign(file_->name(in.buffer),
           fmt::format("torch.ops.coil_wrapper.lay_out.default, {}, {}, {}, {}, {}{}", given_[i],
                       python_string(in.name), python_dtype(b.dtype), wanted, strides, on_device(in.buffer)),
           type_of(in.buffer));
  }
  const std::string weights = file_->weights();
  for (std::size_t at = 0; at < weights.size();) {
    const std::size_t end = weights.find('\n', at);
    if (end > at) statement(weights.substr(at, end - at));
    at = end + 1;
  }
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].kind != BufferKind::Constant) continue;
    const std::string& name = file_->name(static_cast<BufferId>(b));
    // A parameter, not a buffer: torch.fx.symbolic_trace takes buffers for values that the trace may compute with.
    statement(fmt::format("root.register_parameter({0}, torch.nn.Parameter({1}, requires_grad=False))",
                          python_string(name), name));
    statement(fmt::format("{} = typed(graph.get_attr({}), {})", name, python_string(name),
                          python_string(type_of(static_cast<BufferId>(b)))));
    if (like_.empty()) like_ = name;
    if (p.constants[p.buffers[b].index].seed) node("seed", fmt::format("torch.ops.aten.random_.default, {}", name));
  }
  if (failures_.sites.empty()) return;
  const std::string like = on_program_device();
  const auto count = static_cast<std::int64_t>(failures_.sites.size());
  told_ = node("failures", fmt::format("torch.ops.coil_wrapper.new_failures.default, {}, {}", like, count),
               ops::to_string(ops::Value(sym::TensorMeta{DType::I64, p.device, {5 * count}, {1}, 0})));
}

std::string FxEmitter::on_program_device() {
  const Program& p = file_->program();
  if (p.others.empty()) return like_;
  const std::string target =
      like_.empty() ? "torch.ops.aten.empty_strided.default" : "torch.ops.aten.new_empty_strided.default, " + like_;
  return node("place", fmt::format("{}, (0,), (1,), dtype=torch.int64, device=DEVICE", target),
              ops::to_string(ops::Value(sym::TensorMeta{DType::I64, p.device, {0}, {1}, 0})));
}

void FxEmitter::end() {
  if (!failures_.sites.empty()) check_failures();
}

void FxEmitter::check_failures() {
  std::vector<std::string> messages;
  for (const auto& [line, site] : failures_.sites)
    messages.push_back(python_string(failure_of(file_->program().lines[line])));
  node("check_failures",
       fmt::format("torch.ops.coil_wrapper.check_failures.default, {}, {}", told_, text_of(messages)));
}

std::string FxEmitter::on_device(BufferId b) const {
  const std::string name = file_->device_name(b);
  return name.empty() ? "" : ", " + name;
}

void FxEmitter::line(const DefineSymbol& d) {
  const std::string& t = given_[d.input];
  std::string value =
      d.from == DefineSymbol::From::Value    ? fmt::format("torch.ops.coil_wrapper.integer.default, {}",
                                                           file_->name(file_->program().inputs[d.input].buffer))
      : d.from == DefineSymbol::From::Stride ? fmt::format("torch.ops.aten.sym_stride.int, {}, {}", t, d.dim)
                                             : fmt::format("torch.ops.aten.sym_size.int, {}, {}", t, d.dim);
  const std::string name = file_->symbol(d.symbol);
  if (!d.subtract.is_constant(0))
    value = fmt::format("operator.sub, {}, {}", node(name + "_part", value), size(d.subtract));
  if (!d.divide.is_constant(1))
    value = fmt::format("operator.floordiv, {}, {}", node(name + "_part", value), size(d.divide));
  assign(name, value, type_of(d.symbol, name));
}

void FxEmitter::line(const Assert& a) {
  const std::string condition = size(a.condition);
  node("check", fmt::format("torch._assert, {}, {}", condition, python_string(a.message)));
}

void FxEmitter::line(const Allocate& a) {
  const Buffer& b = file_->program().buffers[a.buffer];
  const std::string wanted = sizes(b.sizes), strides = sizes(b.strides);
  // Of a tensor of the program where there is one: what depends on no input a trace would run once, and all calls would
  // share that memory.
  const std::string target =
      like_.empty() ? "torch.ops.aten.empty_strided.default" : "torch.ops.aten.new_empty_strided.default, " + like_;
  assign(file_->name(a.buffer),
         fmt::format("{}, {}, {}, dtype={}, device={}", target, wanted, strides, python_dtype(b.dtype),
                     file_->device_name(a.buffer).empty() ? "torch.device(\"cpu\")" : "DEVICE"),
         type_of(a.buffer));
}

void FxEmitter::line(const Reuse& r) {
  const Buffer& to = file_->program().buffers[r.to];
  const std::string value = view({r.from, to.dtype, to.sizes, to.strides, 0});
  statement(fmt::format("{} = {}  # reuse", file_->name(r.to), value));
}

void FxEmitter::line(const Free& f) {
  node("delete", fmt::format("torch.ops.coil_wrapper.delete.default, {}", file_->name(f.buffer)));
}

/// In a graph each has a parameter to itself, which every run finds again.
void FxEmitter::line(const AllocateComm& a) {
  const Program& p = file_->program();
  const Buffer& b = p.buffers[a.buffer];
  const std::int64_t elements = comm_bytes(p, a.buffer) / static_cast<std::int64_t>(size_of(b.dtype));
  const std::string memory = file_->unique(file_->name(a.buffer) + "_comm");
  statement(fmt::format("root.register_parameter({}, torch.nn.Parameter(torch.{}({}, dtype={}), requires_grad=False))",
                        python_string(memory), peer_tables(p).contains(a.buffer) ? "zeros" : "empty", elements,
                        python_dtype(b.dtype)));
  statement(fmt::format("{} = typed(graph.get_attr({}), {})", memory, python_string(memory),
                        python_string(ops::to_string(
                            ops::Value(sym::TensorMeta{b.dtype, file_->device(a.buffer), {elements}, {1}, 0})))));
  assign(file_->name(a.buffer),
         fmt::format("torch.ops.aten.as_strided.default, {}, {}, {}, 0", memory, sizes(b.sizes), sizes(b.strides)),
         type_of(a.buffer));
}

void FxEmitter::line(const FreeComm& f) {
  node("delete", fmt::format("torch.ops.coil_wrapper.delete.default, {}", file_->name(f.buffer)));
}

void FxEmitter::line(const ReadSymbol& r) {
  if (failures_.behind.contains(at_)) check_failures();
  std::string source = file_->name(r.source);
  if (file_->program().buffers[r.source].dtype == DType::F64)
    source = node("bits", fmt::format("torch.ops.aten.view.dtype, {}, torch.int64", source));
  assign(file_->symbol(r.symbol), fmt::format("torch.ops.coil_wrapper.integer.default, {}", source),
         type_of(r.symbol, ""));
}

void FxEmitter::line(const SetSymbol& s) {
  const std::string value = size(s.value);
  // A node of this graph, which its results can be.
  assign(file_->symbol(s.symbol), fmt::format("operator.add, {}, 0", value), type_of(s.symbol, ""));
}

// What a block computes of sizes is known in it only.
void FxEmitter::open(Block block, const std::string& as) {
  statement(fmt::format("with {} as {}:", as.empty() ? "Block(program)" : as, block.name));
  block.values = values_, block.storage_offsets = storage_offsets_;
  blocks_.push_back(std::move(block));
  ++depth_;
}

FxEmitter::Block FxEmitter::close() {
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  values_ = block.values, storage_offsets_ = block.storage_offsets;
  return block;
}

void FxEmitter::end_side() {
  const Block& block = blocks_.back();
  if (block.gives.empty())
    statement("pass");
  else
    statement(fmt::format("{}.results = ({},)", block.name, fmt::join(block.gives, ", ")));
  --depth_;
}

std::string FxEmitter::truth(sym::Expr condition) {
  const sym::Expr e = sym::ne(condition, 0);
  return e.is_constant() ? e.is_constant(0) ? "False" : "True" : size(e);
}

void FxEmitter::line(const Control& c) {
  using Kind = Control::Kind;
  switch (c.kind) {
    case Kind::If: return begin_branch(c);
    case Kind::Else: return begin_other_side();
    case Kind::EndIf: return end_branch();
    case Kind::Loop: return begin_loop(c);
    case Kind::BreakUnless:
      return open({.name = file_->unique("rest"), .condition = truth(c.condition), .is_rest = true});
    case Kind::EndLoop: return end_loop();
  }
}

void FxEmitter::begin_branch(const Control& c) {
  Block block{.name = file_->unique("yes"), .condition = truth(c.condition)};
  if (auto both = joined_.find(at_); both != joined_.end()) {
    for (sym::Expr s : both->second.symbols)
      block.gives.push_back(file_->symbol(s)), block.types.push_back(type_of(s, ""));
    for (BufferId b : both->second.buffers) block.gives.push_back(file_->name(b)), block.types.push_back(type_of(b));
  }
  open(block);
}

void FxEmitter::begin_other_side() {
  end_side();
  const Block yes = close();
  open({.name = file_->unique("no"),
        .other = yes.name,
        .condition = yes.condition,
        .gives = yes.gives,
        .types = yes.types});
}

void FxEmitter::end_branch() {
  end_side();
  const Block block = close();
  std::string results, names;
  for (std::size_t i = 0; i < block.gives.size(); ++i) {
    results += block.gives[i] + ", ";
    names += fmt::format("({}, {}), ", python_string(block.gives[i]), python_string(block.types[i]));
  }
  const bool two = !block.other.empty();
  statement(fmt::format("{}program.branch({}, {}, {}, {}{})", results.empty() ? "" : fmt::format("[{}] = ", results),
                        python_string(file_->unique("branch")), block.condition, two ? block.other : block.name,
                        two ? block.name : "None", names.empty() ? "" : fmt::format(", [{}]", names)));
}

void FxEmitter::begin_loop(const Control& c) {
  const std::string counter = file_->symbol(c.counter),
                    turns = c.extent.is_constant(sym::Range::kMax) ? "None" : size(c.extent);
  const Block block{.name = file_->unique("turn"), .extent = turns};
  const sym::Expr more = sym::ne(own_symbol(counter + "_more", "1"), 0);
  open(block, fmt::format("program.turn({}, {}, {})", python_string(counter), python_string(type_of(c.counter, "")),
                          python_string(type_of(more, ""))));
  statement(fmt::format("{} = {}.carried[0]", counter, block.name));
}

void FxEmitter::end_loop() {
  std::string more = "True";
  if (blocks_.back().is_rest) {
    statement("pass");
    --depth_;
    const Block rest = close();
    more = rest.condition;
    statement(fmt::format("program.branch({}, {}, {})", python_string(file_->unique("unless_done")), more, rest.name));
  }
  statement(fmt::format("program.end_turn({}, {}, {})", blocks_.back().name, more, blocks_.back().extent));
  --depth_;
  const Block turn = close();
  statement(fmt::format("program.loop({}, {}, {})", python_string(file_->unique("loop")), turn.name, turn.extent));
}

// What a part computes of sizes is its own.
void FxEmitter::line(const BeginPart& b) {
  statement(fmt::format("program.part = {}", b.part));
  values_.clear(), storage_offsets_.clear();
}

void FxEmitter::line(const EndPart&) {
  statement("program.part = None");
  values_.clear(), storage_offsets_.clear();
}

void FxEmitter::add_map(std::vector<std::string>& to, const codegen::MappedTensor& m) {
  to.push_back(std::to_string(m.pointer));
  to.push_back(size(m.offset));
  for (std::size_t n : {std::size_t{m.map.element}, std::size_t{m.map.swizzle}, m.map.box.size()})
    to.push_back(std::to_string(n));
  for (const sym::Exprs* list : {&m.sizes, &m.strides})
    for (sym::Expr e : *list) to.push_back(size(e));
  for (std::uint32_t n : m.map.box) to.push_back(std::to_string(n));
}

void FxEmitter::line(const CallKernel& c) {
  std::vector<std::string> reads, writes, scalars;
  for (std::size_t i = 0; i < c.buffers.size(); ++i)
    (c.written[i] ? writes : reads).push_back(file_->name(c.buffers[i]));
  for (sym::Expr e : c.scalars) scalars.push_back(size(e));
  if (c.launch) {
    std::vector<std::string> grid;
    for (sym::Expr e : c.launch->grid) grid.push_back(size(c.when && grid.empty() ? sym::where(*c.when, e, 0) : e));
    std::vector<std::string> maps;
    for (const codegen::MappedTensor& m : c.launch->maps) add_map(maps, m);
    const std::string shared = size(c.launch->shared_bytes);
    return kernel_launch(file_->kernel_key(c.kernel), text_of(reads), text_of(writes), text_of(scalars), text_of(grid),
                         c.launch->block, shared, maps.empty() ? "" : text_of(maps), status(),
                         PythonFile::origins(c.origins, c.where));
  }
  const std::string extent = size(c.when ? sym::where(*c.when, c.extent, 0) : c.extent);
  if (failures_.guarded.contains(at_)) check_failures();
  kernel_call(file_->kernel_key(c.kernel), text_of(reads), text_of(writes), text_of(scalars), extent, c.grain,
              c.failure, PythonFile::origins(c.origins, c.where));
}

std::string FxEmitter::status() const {
  const auto site = failures_.sites.find(at_);
  if (site != failures_.sites.end()) return fmt::format("{}, {}", told_, site->second);
  return failures_.guarded.contains(at_) ? told_ : "";
}

void FxEmitter::kernel_call(const std::string& kernel, const std::string& reads, const std::string& writes,
                            const std::string& scalars, const std::string& extent, std::int64_t grain,
                            const std::string& failure, const std::string& origins) {
  node("kernel", fmt::format("torch.ops.coil_wrapper.kernel.default, {}, {}, {}, {}, {}, {}, {}, origins={}",
                             python_string(kernel), reads, writes, scalars, extent, grain, python_string(failure),
                             python_string(origins)));
}

void FxEmitter::kernel_launch(const std::string& kernel, const std::string& reads, const std::string& writes,
                              const std::string& scalars, const std::string& grid, int block,
                              const std::string& shared_bytes, const std::string& maps, const std::string& failure,
                              const std::string& origins) {
  std::string rest =
      failure.empty() ? shared_bytes == "0" ? "" : ", " + shared_bytes : fmt::format(", {}, {}", shared_bytes, failure);
  if (!maps.empty()) rest += ", maps=" + maps;
  node("launch", fmt::format("torch.ops.coil_wrapper.launch.default, {}, {}, {}, {}, {}, {}{}, origins={}",
                             python_string(kernel), reads, writes, scalars, grid, block, rest, python_string(origins)));
}

void FxEmitter::line(const CallExtern& c) {
  if (failures_.guarded.contains(at_)) check_failures();
  if (library_ops::has(c.op, library_ops::Trait::DeviceCopy)) return copy_between_devices(c);
  const std::string in = views(c.inputs), out = views(c.outputs);
  node(c.op,
       fmt::format("torch.ops.coil_wrapper.library.default, {}, {}, {}, {}, origins={}", python_string(c.op),
                   python_string(json(c.attributes)), in, out, python_string(PythonFile::origins(c.origins, c.where))));
}

/// Done when the node has run, whether the author would have waited or not: nothing in a graph says who reads it next.
void FxEmitter::copy_between_devices(const CallExtern& c) {
  const std::string from = view(c.inputs.front()), to = view(c.outputs.front());
  node("copy", fmt::format("torch.ops.aten.copy_.default, {}, {}, origins={}", to, from,
                           python_string(PythonFile::origins(c.origins, c.where))));
  if (failures_.behind.contains(at_) && file_->device(c.outputs.front().buffer).is_host()) check_failures();
}

void FxEmitter::line(const CallFallback& c) {
  if (failures_.guarded.contains(at_)) check_failures();
  for (std::size_t k = 0; k < c.writes.size(); ++k) {
    const std::string to = view(*c.outputs[own_results(c) + k]), from = view(c.inputs[c.writes[k]]);
    node("copy", fmt::format("torch.ops.aten.copy_.default, {}, {}", to, from));
  }
  const std::string given = arguments(c, [&](sym::Expr e) { return size(e); }, [&](const View& v) { return view(v); });
  std::string type;
  for (std::size_t k = 0; k < own_results(c); ++k) {
    const auto& v = c.outputs[k];
    type += (k ? ", " : "") + (v ? type_of(*v, 0) : "None");
  }
  const std::string results =
      node("fallback", fmt::format("{}{}{}", python_operator(c.op), given.empty() ? "" : ", ", given),
           c.is_list        ? "[" + type + "]"
           : type == "None" ? ""
                            : type);
  for (std::size_t k = 0; k < own_results(c); ++k) {
    if (!c.outputs[k]) continue;
    const std::string to = view(*c.outputs[k]),
                      result = c.is_list ? node("item", fmt::format("operator.getitem, {}, {}", results, k)) : results;
    node("copy", fmt::format("torch.ops.aten.copy_.default, {}, {}", to, result));
  }
}

void FxEmitter::line(const CallUserKernel& c) {
  if (failures_.guarded.contains(at_) && !c.kernel->has_status()) check_failures();
  std::vector<View> reads, writes;
  for (std::size_t k = 0; k < c.tensors.size(); ++k) (c.written[k] ? writes : reads).push_back(c.tensors[k]);
  std::vector<std::string> numbers, grid;
  for (sym::Expr e : c.numbers) numbers.push_back(size(e));
  for (sym::Expr e : c.grid) grid.push_back(size(e));
  const std::string read = views(reads), written = views(writes);
  std::string failure;
  if (c.kernel->has_status())
    failure = fmt::format(", {}{}{}", python_string(c.failure), status().empty() ? "" : ", ", status());
  node("user_kernel", fmt::format("torch.ops.coil_wrapper.user_kernel.default, {}, {}, {}, {}, {}{}, origins={}",
                                  python_string(c.kernel->symbol), read, written, text_of(numbers), text_of(grid),
                                  failure, python_string(PythonFile::origins(c.origins, c.where))));
}

// ---- Sizes ----

std::string FxEmitter::size(sym::Expr e) {
  if (e.is_constant()) return std::to_string(*e.constant());
  if (e.is_symbol()) return file_->symbol(e);
  if (auto found = values_.find(e); found != values_.end()) return found->second;
  const std::string name = compute(e);
  return values_[e] = name;
}

std::string FxEmitter::sizes(const sym::Exprs& values) {
  std::vector<std::string> out;
  for (sym::Expr e : values) out.push_back(size(e));
  return python_tuple(out);
}

std::string FxEmitter::compute(sym::Expr e) {
  std::vector<std::string> args;
  const std::string type = type_of(e, "size");
  if (e.kind() == sym::Kind::Float) {
    const FloatFunction f = sym::float_function(e);
    for (std::size_t i = 0; const sym::Expr& x : sym::float_operands(e))
      args.push_back(signature_of(f).takes[i++] == 'f' && x.is_constant() ? python_real(float_of_bits(*x.constant()))
                                                                          : size(x));
    const std::string made =
        node(sym::is_float(e) ? "real" : "size", fmt::format("{}, {}", function_of(f), fmt::join(args, ", ")),
             f == FloatFunction::Floor ? "" : type);
    return f == FloatFunction::Floor ? node("real", "torch.sym_float, " + made, type) : made;
  }
  for (sym::Expr x : e.operands()) args.push_back(size(x));
  switch (e.kind()) {
    case sym::Kind::Where:
      return node("size",
                  fmt::format("torch.sym_ite, {}, {}, {}", node("size", fmt::format("operator.ne, {}, 0", args[0])),
                              args[1], args[2]),
                  type);
    case sym::Kind::Not: return node("size", fmt::format("operator.eq, {}, 0", args[0]), type);
    case sym::Kind::CeilDiv:
      return node(
          "size",
          fmt::format("operator.neg, {}",
                      node("size", fmt::format("operator.floordiv, {}, {}",
                                               node("size", fmt::format("operator.neg, {}", args[0])), args[1]))),
          type);
    default: break;
  }
  std::string value = args[0];
  for (std::size_t i = 1; i < args.size(); ++i)
    value =
        node("size", fmt::format("{}, {}, {}", function_of(e.kind()), value, args[i]), i + 1 < args.size() ? "" : type);
  return value;
}

// ---- Views ----

/// Where the tensor of an input begins in its storage; everything else begins at 0.
std::string FxEmitter::storage_offset(BufferId b) {
  if (file_->program().buffers[b].kind != BufferKind::Input) return "";
  auto [it, added] = storage_offsets_.emplace(b, "");
  if (added)
    it->second = node("offset", fmt::format("torch.ops.aten.sym_storage_offset.default, {}", file_->name(b)),
                      type_of(moved_.at(b), ""));
  return it->second;
}

std::string FxEmitter::view(const View& v) {
  const Program& p = file_->program();
  if (is_whole(p, v)) return file_->name(v.buffer);
  const Buffer& b = p.buffers[v.buffer];
  std::string base = file_->name(v.buffer), start = storage_offset(v.buffer);
  if (v.dtype != b.dtype) {
    const auto from = static_cast<std::int64_t>(size_of(b.dtype)), to = static_cast<std::int64_t>(size_of(v.dtype));
    const std::string elements = size(sym::floor_div(b.bytes, from));
    base = node("flat", fmt::format("torch.ops.aten.as_strided.default, {}, ({},), (1,), {}", base, elements,
                                    start.empty() ? "0" : start));
    const View flat{v.buffer, v.dtype, {sym::floor_div(b.bytes, to)}, {1}, 0};
    base = node("flat", fmt::format("torch.ops.aten.view.dtype, {}, {}", base, python_dtype(v.dtype)),
                type_of(flat, placed(flat)));
    if (!start.empty() && from != to)
      start = node("offset", fmt::format("operator.floordiv, {}, {}",
                                         node("offset", fmt::format("operator.mul, {}, {}", start, from)), to));
  }
  std::string offset = size(v.offset);
  if (!start.empty())
    offset = v.offset.is_constant(0) ? start : node("offset", fmt::format("operator.add, {}, {}", start, offset));
  const std::string wanted = sizes(v.sizes), strides = sizes(v.strides);
  return node(file_->name(v.buffer) + "_view",
              fmt::format("torch.ops.aten.as_strided.default, {}, {}, {}, {}", base, wanted, strides, offset),
              type_of(v, placed(v)));
}

/// Where a view begins in its storage, in elements of its own type.
sym::Expr FxEmitter::placed(const View& v) const {
  auto moved = moved_.find(v.buffer);
  if (moved == moved_.end()) return v.offset;
  const auto from = static_cast<std::int64_t>(size_of(file_->program().buffers[v.buffer].dtype)),
             to = static_cast<std::int64_t>(size_of(v.dtype));
  return (from == to ? moved->second : sym::floor_div(moved->second * from, to)) + v.offset;
}

std::string FxEmitter::views(const std::vector<View>& all) {
  std::vector<std::string> out;
  for (const View& v : all) out.push_back(view(v));
  return text_of(out);
}

std::string FxEmitter::output(const Output& o) {
  if (auto* v = std::get_if<View>(&o.value)) return view(*v);
  if (auto* d = std::get_if<double>(&o.value)) return python_real(*d);
  const std::string value = size(std::get<sym::Expr>(o.value));
  return o.is_bool ? node("truth", fmt::format("operator.ne, {}, 0", value)) : value;
}

}  // namespace coil::wrapper
