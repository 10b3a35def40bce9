#include <algorithm>

#include "ir/names.h"
#include "ir/scalar_text.h"
#include "ir/text.h"
#include "support/error.h"
#include "sym/declarations.h"

namespace coil::ir {
namespace {

template <std::size_t N>
std::optional<std::size_t> place_in(const std::string_view (&names)[N], std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<std::size_t>(found - std::begin(names));
}

class Parser {
 public:
  explicit Parser(std::string_view text)
      : text_(text),
        env_(std::make_shared<sym::ShapeEnv>()),
        graph_(std::make_unique<Graph>(env_)),
        read_(*env_, true),
        stored_([this](BufferId b) {
          if (b >= graph_->buffers().size()) fail("there is no buf{}", b);
          return graph_->buffer(b).layout.dtype;
        }) {}

  Parsed run() {
    bool begun = false, ended = false;
    while (!ended && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      LineCursor c(text_.substr(at_, end - at_), ++number_);
      at_ = std::min(end + 1, text_.size());
      if (c.peek() == '\0' || c.peek() == '#') continue;
      if (!begun)
        header(c), begun = true;
      else
        ended = line(c);
    }
    if (!ended) fail("line {}: the program does not return", number_);
    return {std::move(graph_), text_.substr(at_), number_};
  }

 private:
  void header(LineCursor& c) {
    c.expect("loops");
    c.expect("(");
    sym::read_declarations(c, *env_);
    graph_->on_several_devices = c.accept("on");
    if (graph_->on_several_devices) c.expect("several"), c.expect("devices");
    c.expect(":");
    c.expect_end();
  }

  /// Whether it was the last.
  bool line(LineCursor& c) {
    if (c.accept("return")) {
      outputs(c);
      return true;
    }
    if (c.look().starts_with("op"))
      operation(c);
    else
      buffer(c);
    return false;
  }

  /// `buf3`, one that is there.
  BufferId buffer_id(LineCursor& c) {
    const std::string name = c.identifier();
    std::uint32_t id = 0;
    const char* end = name.data() + name.size();
    if (!name.starts_with("buf") || std::from_chars(name.data() + 3, end, id).ptr != end)
      c.fault(fmt::format("'{}' is no buffer", name));
    if (id >= graph_->buffers().size()) c.fault(fmt::format("there is no {}", name));
    return id;
  }

  /// `f32[s0, 4]{1, s0}+8@cuda:0`
  sym::TensorMeta meta(LineCursor& c) {
    const DType dtype = read_.dtype(c);
    sym::TensorMeta m = sym::contiguous(dtype, Device{}, read_.exprs(c));
    if (c.accept("{")) {
      m.strides.clear();
      c.items('}', [&] { m.strides.push_back(read_.expr(c, {",", "}"})); });
      c.expect("}");
      if (m.strides.size() != m.sizes.size()) c.fault("there are as many strides as sizes");
    }
    if (c.accept("+")) m.offset = read_.expr(c, {",", "@", " ->", " with ", " where ", "  #"});
    if (c.accept("@")) m.device = read_.device(c);
    return m;
  }

  void buffer(LineCursor& c) {
    c.expect(fmt::format("buf{}", graph_->buffers().size()));
    c.expect(":");
    const sym::TensorMeta m = meta(c);
    Layout layout{m.dtype, m.device, m.sizes, m.strides, true};
    BufferKind kind = BufferKind::Computed;
    const bool seed = c.accept("seed");
    if (c.accept("input"))
      kind = BufferKind::Input;
    else if (seed || c.accept("constant"))
      kind = BufferKind::Constant;
    else
      layout.fixed = c.accept("fixed");
    if (layout.fixed && kind == BufferKind::Computed && c.accept("comm")) {
      c.expect(to_string(CommKind::Symmetric));
      layout.comm = CommBufferLayout{CommKind::Symmetric, c.quoted()};
    }
    bool output = c.accept("output");
    std::string name = output || c.done() ? "" : c.name();
    output = output || c.accept("output");
    c.expect_end();
    Buffer& b = graph_->add_buffer(std::move(name), kind, std::move(layout));
    b.is_output = output;
    if (kind == BufferKind::Input) graph_->inputs.push_back(b.id);
    if (kind == BufferKind::Constant)
      graph_->constants.emplace(b.id, zeros(c, b.layout.dtype, b.layout.sizes, b.layout.strides));
    if (seed) graph_->set_seed_buffer(b.id);
  }

  BufferView view(LineCursor& c) {
    BufferView v{.buffer = buffer_id(c)};
    c.expect("as");
    sym::TensorMeta m = meta(c);
    v.dtype = m.dtype;
    v.sizes = std::move(m.sizes);
    v.strides = std::move(m.strides);
    v.offset = m.offset;
    return v;
  }

  void outputs(LineCursor& c) {
    while (!c.done()) {
      GraphOutput out;
      out.name = c.name();
      c.expect("=");
      if (c.accept("int"))
        out.value = read_.expr(c, {","});
      else if ((out.is_bool = c.accept("bool")))
        out.value = read_.expr(c, {","});
      else if (c.accept("real"))
        out.value = read_.real(c, std::string(c.until({",", " "})));
      else
        out.value = view(c);
      graph_->outputs.push_back(std::move(out));
      if (!c.accept(",")) c.expect_end();
    }
  }

  void operation(LineCursor& c) {
    c.expect(fmt::format("op{}", graph_->operations().size()));
    c.expect(":");
    Operation op;
    while (c.look().starts_with("buf")) op.outs.push_back(buffer_id(c));
    if (!op.outs.empty() && c.accept("at")) op.store_index = read_.exprs(c);
    if (!op.outs.empty()) c.expect("=");
    node(c, op);
    if (c.accept("#")) {
      do op.origins.insert(c.name());
      while (c.accept(","));
    }
    c.expect_end();
    check(c, op);
    graph_->add_operation(std::move(op));
  }

  void node(LineCursor& c, Operation& op) {
    if (c.accept("pointwise"))
      op.node = pointwise(c);
    else if (c.accept("extern"))
      op.node = library_call(c);
    else if (c.accept("user_kernel"))
      op.node = user_call(c);
    else if (c.accept("fallback"))
      op.node = host_call(c);
    else if (c.accept("assert"))
      op.node = assertion(c);
    else if (c.accept("symbol"))
      symbol(c, op);
    else if (auto border = read_.control(c))
      op.node = *border;
    else
      loop(c, op);
  }

  /// `reduce.sum[`, `scan.max[`, `scatter.add[`
  void loop(LineCursor& c, Operation& op) {
    const std::string word = c.bare();
    const std::size_t dot = std::min(word.find('.'), word.size());
    const std::string_view family = std::string_view(word).substr(0, dot),
                           kind = std::string_view(word).substr(std::min(dot + 1, word.size()));
    const auto reduction = place_in(kReductionNames, kind), scan = place_in(kScanNames, kind),
               store = place_in(kStoreNames, kind);
    if (family == "reduce" && reduction)
      op.node = reduce(c, static_cast<ReductionKind>(*reduction));
    else if (family == "scan" && scan)
      op.node = read_scan(c, static_cast<ScanKind>(*scan));
    else if (family == "scatter" && store)
      op.node = scatter(c, static_cast<StoreMode>(*store));
    else
      c.fault(fmt::format("there is no operation {}", word));
  }

  /// `i0 < s0, i1 < 8`, up to a bracket or a semicolon.
  Exprs sizes(LineCursor& c, char letter) {
    Exprs out;
    while (c.peek() != ']' && c.peek() != ';') {
      c.expect(fmt::format("{}{}", letter, out.size()));
      c.expect("<");
      out.push_back(read_.expr(c, {",", ";"}));
      if (!c.accept(",") && c.peek() != ']' && c.peek() != ';') c.fault("',', ';' or ']' should stand here");
    }
    return out;
  }

  Scalar scalar(LineCursor& c) { return read_scalar(c, read_, graph_->pool(), stored_); }

  Pointwise pointwise(LineCursor& c) {
    Pointwise p;
    c.expect("[");
    p.sizes = sizes(c, 'i');
    c.expect("]");
    p.body = scalar(c);
    return p;
  }

  Reduction reduce(LineCursor& c, ReductionKind kind) {
    Reduction r{.kind = kind};
    c.expect("[");
    r.sizes = sizes(c, 'i');
    c.expect(";");
    r.reduced = sizes(c, 'r');
    c.expect("]");
    r.body = scalar(c);
    return r;
  }

  Scan read_scan(LineCursor& c, ScanKind kind) {
    Scan s{.kind = kind};
    c.expect("[");
    s.sizes = sizes(c, 'i');
    c.expect(";");
    c.expect("dim");
    s.dim = dimension(c, s.sizes.size());
    c.expect("]");
    s.body = scalar(c);
    return s;
  }

  Scatter scatter(LineCursor& c, StoreMode mode) {
    Scatter s{.mode = mode};
    c.expect("[");
    s.sizes = sizes(c, 'i');
    if (c.accept(";")) {
      c.expect("sorted");
      c.expect("along");
      const std::string variable = c.identifier();
      std::size_t d = 0;
      while (d < s.sizes.size() && variable != fmt::format("i{}", d)) ++d;
      if (d == s.sizes.size()) c.fault(fmt::format("{} is no loop here", variable));
      s.sorted = d;
      if (c.accept("in")) {
        c.expect("pieces");
        c.expect("of");
        s.piece = c.integer();
      }
    }
    c.expect("]");
    c.expect("at");
    s.index = read_.exprs(c);
    while (c.accept(",")) {
      c.expect(fmt::format("x{}", s.indirect.size()));
      c.expect("=");
      s.indirect.push_back(scalar(c));
    }
    s.body = scalar(c);
    return s;
  }

  static std::size_t dimension(LineCursor& c, std::size_t rank) {
    const std::int64_t d = c.integer();
    if (d < 0 || d >= static_cast<std::int64_t>(rank)) c.fault(fmt::format("there is no dimension {}", d));
    return static_cast<std::size_t>(d);
  }

  Extern library_call(LineCursor& c) {
    Extern e{.op = c.identifier()};
    c.expect("(");
    c.items(')', [&] { e.inputs.push_back(view(c)); });
    c.expect(")");
    while (!c.accept("->")) {
      const std::string key = c.identifier();
      c.expect("=");
      if (!e.attributes.emplace(key, read_.attribute(c)).second)
        c.fault(fmt::format("the attribute {} is given twice", key));
    }
    while (!c.done() && c.peek() != '#') {
      e.outputs.push_back(view(c));
      if (!c.accept(",")) break;
    }
    return e;
  }

  Fallback host_call(LineCursor& c) {
    Fallback f{.op = c.bare()};
    std::size_t operands = 0;
    f.arguments = read_.arguments(c, operands);
    f.writes = read_.writes(c);
    if (c.accept("where")) {
      do {
        c.expect(fmt::format("%{}", f.inputs.size()));
        c.expect("=");
        f.inputs.push_back(view(c));
      } while (c.accept(","));
    }
    if (c.accept("with")) c.expect("effect"), f.has_effect = true;
    c.expect("->");
    f.is_list = c.accept("[");
    while (!c.done() && c.peek() != '#' && c.peek() != ']') {
      if (c.accept("None"))
        f.outputs.emplace_back();
      else
        f.outputs.emplace_back(view(c));
      if (!c.accept(",")) break;
    }
    if (f.is_list) c.expect("]");
    if (operands > f.inputs.size()) c.fault(fmt::format("%{} is no operand", operands - 1));
    for (std::size_t k : f.writes)
      if (k >= f.inputs.size() || f.writes.size() > f.outputs.size())
        c.fault(fmt::format("%{} is no operand that could be written to", k));
    return f;
  }

  /// `user_kernel NAME(buf0 as …, buf1 as …; [8, s0]) on [4, 1, 1] writes %1`; the text has no code for the kernel.
  UserCall user_call(LineCursor& c) {
    UserCall u;
    u.kernel = std::make_shared<const ops::UserKernel>(ops::UserKernel{.symbol = c.identifier()});
    c.expect("(");
    c.items(';', [&] { u.tensors.push_back(view(c)); });
    c.expect(";");
    u.numbers = read_.exprs(c);
    c.expect(")");
    c.expect("on");
    u.grid = read_.exprs(c);
    if (u.grid.size() != 3) c.fault("a grid has blocks along x, y and z");
    u.written = read_.writes(c);
    for (std::size_t k : u.written)
      if (k >= u.tensors.size()) c.fault(fmt::format("%{} is no tensor that could be written to", k));
    return u;
  }

  Assertion assertion(LineCursor& c) {
    Assertion a{read_.expr(c, {","}), ""};
    c.expect(",");
    a.message = c.quoted();
    return a;
  }

  void symbol(LineCursor& c, Operation& op) {
    const Expr symbol = read_.symbol(c);
    c.expect("=");
    const bool reads = c.accept("read");
    if (!reads) c.expect("number");
    c.expect("(");
    if (reads)
      op.node = ReadSymbol{symbol, buffer_id(c)};
    else
      op.node = SetSymbol{symbol, read_.expr(c, {})};
    c.expect(")");
  }

  // ---- What fits together

  void check(LineCursor& c, const Operation& op) {
    std::visit([&](const auto& node) { check(c, op, node); }, op.node);
  }

  void check_index(LineCursor& c, std::size_t given, BufferId b) const {
    const std::size_t rank = graph_->buffer(b).layout.sizes.size();
    if (given != rank) c.fault(fmt::format("buf{} has {} dimensions, not {}", b, rank, given));
  }

  void check_loads(LineCursor& c, Scalar root) const {
    for (Scalar load : loads(root))
      if (load->op == ScalarOp::Load) check_index(c, load->index.size(), load->buffer);
  }

  /// Checks the store of a loop that stores once at each point of these sizes.
  void check_store(LineCursor& c, const Operation& op, const Exprs& sizes, std::size_t outs) const {
    if (op.outs.empty() || op.outs.size() > outs) c.fault("a loop stores to one buffer");
    check_index(c, op.store_index.empty() ? sizes.size() : op.store_index.size(), op.outs[0]);
  }

  void check(LineCursor& c, const Operation& op, const Pointwise& p) {
    check_store(c, op, p.sizes, 1);
    check_loads(c, p.body);
  }
  void check(LineCursor& c, const Operation& op, const Reduction& r) {
    check_store(c, op, r.sizes, 1);
    check_loads(c, r.body);
  }
  void check(LineCursor& c, const Operation& op, const Scan& s) {
    check_store(c, op, s.sizes, 2);
    check_loads(c, s.body);
  }
  void check(LineCursor& c, const Operation& op, const Scatter& s) {
    if (op.outs.size() != 1 || !op.store_index.empty()) c.fault("a scatter stores to one buffer, where data says");
    check_index(c, s.index.size(), op.outs[0]);
    check_loads(c, s.body);
    for (Scalar x : s.indirect) {
      if (x->dtype != DType::I64) c.fault("a place is an i64");
      check_loads(c, x);
    }
  }
  void check(LineCursor& c, const Operation& op, const Extern& e) {
    for (const BufferView& v : e.outputs)
      if (std::find(op.outs.begin(), op.outs.end(), v.buffer) == op.outs.end())
        c.fault(fmt::format("buf{} is none of the buffers that this makes", v.buffer));
  }
  void check(LineCursor& c, const Operation& op, const Fallback& f) {
    for (const auto& v : f.outputs)
      if (v && std::find(op.outs.begin(), op.outs.end(), v->buffer) == op.outs.end())
        c.fault(fmt::format("buf{} is none of the buffers that this makes", v->buffer));
  }
  void check(LineCursor& c, const Operation& op, const UserCall& u) {
    for (std::size_t k : u.written)
      if (std::find(op.outs.begin(), op.outs.end(), u.tensors[k].buffer) == op.outs.end())
        c.fault(fmt::format("buf{} is none of the buffers that this makes", u.tensors[k].buffer));
  }
  void check(LineCursor& c, const Operation& op, const ReadSymbol& r) {
    const Layout& l = graph_->buffer(r.source).layout;
    if ((l.dtype != DType::I64 && l.dtype != DType::F64) || !l.sizes.empty())
      c.fault(fmt::format("buf{} is no single i64 or f64", r.source));
    check_alone(c, op);
  }
  template <class Node>
  void check(LineCursor& c, const Operation& op, const Node&) {
    check_alone(c, op);
  }
  static void check_alone(LineCursor& c, const Operation& op) {
    if (!op.outs.empty()) c.fault("this makes no buffer");
  }

  std::string_view text_;
  std::size_t at_ = 0, number_ = 0;
  std::shared_ptr<sym::ShapeEnv> env_;
  std::unique_ptr<Graph> graph_;
  PartReader read_;
  StoredType stored_;
};

}  // namespace

Parsed parse(std::string_view text) { return Parser(text).run(); }

bool is_loop_text(std::string_view text) { return first_line(text).starts_with("loops("); }

}  // namespace coil::ir
