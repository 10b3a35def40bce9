#include "ir/text_parts.h"
#include "ops/value.h"
#include "support/error.h"
#include "sym/declarations.h"
#include "wrapper/text.h"

namespace coil::wrapper {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text)
      : text_(text), p_{.env = std::make_shared<sym::ShapeEnv>()}, read_(*p_.env, false) {}

  Program run() {
    std::size_t number = 0;
    bool begun = false;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      const std::string_view text = text_.substr(at, end - at);
      at = end + 1;
      LineCursor c(text, ++number);
      if (c.peek() == '\0' || c.peek() == '#') continue;
      if (!begun)
        header(c), begun = true;
      else
        line(c, text);
    }
    if (!begun) fail("there is no wrapper program in this text");
    for (KernelEntry& k : p_.kernels)
      if (k.parts)
        k.text = k.parts->text(k.symbol);
      else if (k.triton)
        k.text = k.triton->text(k.symbol);
    return std::move(p_);
  }

 private:
  void header(LineCursor& c) {
    c.expect("wrapper");
    p_.name = c.name();
    c.expect("(");
    sym::read_declarations(c, *p_.env);
    if (c.accept("on")) p_.device = read_.device(c);
    while (c.accept("and")) p_.others.push_back(read_.device(c));
    p_.check_lifetimes = c.accept("watched");
    c.expect(":");
    c.expect_end();
  }

  void line(LineCursor& c, std::string_view text) {
    if (c.accept("|")) {
      if (!open_text_) c.fault("this line belongs to no kernel");
      const std::size_t bar = text.find('|');
      KernelEntry& kernel = p_.kernels[*open_text_];
      (kernel.parts    ? kernel.parts->body
       : kernel.triton ? kernel.triton->body
                       : kernel.text) += std::string(text.substr(std::min(text.size(), bar + 2))) + "\n";
      return;
    }
    open_text_.reset();
    if (c.accept("buffer"))
      buffer(c);
    else if (c.accept("symbol"))
      symbol(c);
    else if (c.accept("assert"))
      assertion(c);
    else if (c.accept("kernel"))
      p_.lines.emplace_back(DefineKernel{define_kernel(c)});
    else if (c.accept("allocate"))
      p_.lines.emplace_back(Allocate{buffer_named(c)});
    else if (c.accept("reuse"))
      reuse(c);
    else if (c.accept("free"))
      p_.lines.emplace_back(Free{buffer_named(c)});
    else if (c.accept("comm"))
      comm(c);
    else if (c.accept("call"))
      call(c, false);
    else if (c.accept("launch"))
      call(c, true);
    else if (c.accept("extern"))
      library_call(c);
    else if (c.accept("user_kernel"))
      user_kernel(c);
    else if (c.accept("fallback"))
      host_call(c);
    else if (c.accept("output"))
      output(c);
    else if (c.accept("text"))
      kernel_text(c);
    else if (c.accept("source"))
      source(c);
    else if (c.accept("part"))
      begin_part(c);
    else if (c.accept("end part"))
      p_.lines.emplace_back(EndPart{p_.parts.empty() ? 0 : p_.parts.size() - 1});
    else if (auto border = read_.control(c))
      p_.lines.emplace_back(*border);
    else
      c.fault("no line of the wrapper begins so");
    c.expect_end();
  }

  // ---- Expressions and names ----

  Expr expr(LineCursor& c, std::initializer_list<std::string_view> stops) { return read_.expr(c, stops); }
  Exprs exprs(LineCursor& c) { return read_.exprs(c); }
  DType dtype(LineCursor& c) { return read_.dtype(c); }

  BufferId buffer_named(LineCursor& c) {
    const std::string name = c.name();
    auto found = buffers_.find(name);
    if (found == buffers_.end()) c.fault(fmt::format("there is no buffer {}", name));
    return found->second;
  }

  std::size_t kernel_named(LineCursor& c) {
    const std::string name = c.identifier();
    auto found = kernels_.find(name);
    if (found == kernels_.end()) c.fault(fmt::format("there is no kernel {}", name));
    return found->second;
  }

  /// `text coil_1`, or with what stands before the lines that follow:
  /// `text coil_1 "__global__ void" ("const f32*" restrict p0, "i64*" status)`.
  void kernel_text(LineCursor& c) {
    open_text_ = kernel_named(c);
    if (c.done()) return;
    if (c.accept("triton")) return triton_text(c);
    codegen::KernelParts parts{.qualifiers = c.quoted()};
    c.expect("(");
    while (!c.accept(")")) {
      if (!parts.parameters.empty()) c.expect(",");
      codegen::Parameter p{.type = c.quoted()};
      p.restricted = c.accept("restrict");
      p.name = c.identifier();
      parts.parameters.push_back(std::move(p));
    }
    p_.kernels[*open_text_].parts = std::move(parts);
  }

  /// `text coil_1 triton 4 warps ("fp32" p0, "fp32" p1) narrow [s0] XBLOCK = 128`.
  void triton_text(LineCursor& c) {
    codegen::TritonParts t{.warps = static_cast<int>(c.integer())};
    c.expect("warps");
    c.expect("(");
    while (!c.accept(")")) {
      if (!t.tensors.empty()) c.expect(",");
      std::string type = c.quoted();
      t.tensors.push_back({c.identifier(), std::move(type)});
    }
    t.wide = c.accept("wide");
    if (!t.wide) c.expect("narrow");
    c.expect("[");
    while (!c.accept("]")) {
      if (!t.numbers.empty()) c.expect(",");
      t.numbers.push_back(c.identifier());
    }
    t.status = c.accept("status");
    while (!c.done()) {
      std::string name = c.identifier();
      c.expect("=");
      t.constants.emplace_back(std::move(name), static_cast<int>(c.integer()));
    }
    p_.kernels[*open_text_].triton = std::move(t);
  }

  std::size_t define_kernel(LineCursor& c) {
    const std::string name = c.identifier();
    if (!kernels_.emplace(name, p_.kernels.size()).second) c.fault(fmt::format("the kernel {} is defined twice", name));
    p_.kernels.push_back({name, ""});
    if (c.accept("on")) {
      const Device device = read_.device(c);
      p_.kernels.back().place = p_.place_of(device);
      if (p_.device_of(p_.kernels.back().place) != device)
        c.fault(fmt::format("the program does not lie on {}", to_string(device)));
    }
    return p_.kernels.size() - 1;
  }

  /// `x`, `x.view(i32)`, `x.as_strided([..], [..], 0)`. A name that is no plain word is in quotes, so a dot and a
  /// parenthesis belong to the view.
  View view(LineCursor& c) {
    std::string name;
    std::string call;  // "view" or "as_strided"
    if (c.peek() == '"') {
      name = c.quoted();
    } else {
      name = c.bare();
      if (c.peek() == '(')
        for (std::string_view suffix : {".view", ".as_strided"})
          if (name.ends_with(suffix)) call = suffix.substr(1), name.resize(name.size() - suffix.size());
    }
    auto found = buffers_.find(name);
    if (found == buffers_.end()) c.fault(fmt::format("there is no buffer {}", name));
    const Buffer& b = p_.buffers[found->second];
    View v{found->second, b.dtype, b.sizes, b.strides, 0};
    if (call.empty() && c.accept(".view")) call = "view";
    if (call == "view") {
      c.expect("(");
      v.dtype = dtype(c);
      c.expect(")");
      call.clear();
    }
    if (call == "as_strided" || c.accept(".as_strided")) {
      c.expect("(");
      v.sizes = exprs(c);
      c.expect(",");
      v.strides = exprs(c);
      c.expect(",");
      v.offset = expr(c, {});
      c.expect(")");
      if (v.sizes.size() != v.strides.size()) c.fault("a view has as many strides as sizes");
    }
    return v;
  }

  std::vector<View> views(LineCursor& c, char end) {
    std::vector<View> out;
    c.items(end, [&] { out.push_back(view(c)); });
    return out;
  }

  /// ` from a, b as c at "model.py:12"`; nodes that have their origins' names are left out.
  template <class Call>
  static void origins(LineCursor& c, Call& call) {
    auto names = [&](std::set<std::string>& into) {
      do into.insert(c.name());
      while (c.accept(","));
    };
    if (c.accept("from")) names(call.origins);
    if (c.accept("as"))
      names(call.nodes);
    else
      call.nodes = call.origins;
    if (c.accept("at")) call.where = c.quoted();
  }

  // ---- Lines ----

  void buffer(LineCursor& c) {
    Buffer b;
    b.name = c.name();
    c.expect(":");
    b.dtype = dtype(c);
    b.sizes = exprs(c);
    c.expect("{");
    b.strides = exprs(c);
    c.expect("}");
    if (b.sizes.size() != b.strides.size()) c.fault("a buffer has as many strides as sizes");
    const std::string kind = c.bare();
    if (c.accept("on")) b.device = read_.device(c);
    if (c.accept("comm")) {
      c.expect(ir::to_string(ir::CommKind::Symmetric));
      b.comm = ir::CommBufferLayout{ir::CommKind::Symmetric, c.quoted()};
    }
    const auto id = static_cast<BufferId>(p_.buffers.size());
    if (kind == "input") {
      b.kind = BufferKind::Input;
      b.index = p_.inputs.size();
      Input in{c.peek() == '"' ? c.quoted() : b.name, id};
      in.mutated = c.accept("mutated");
      in.unused = c.accept("unused");
      if (c.accept("goes")) {
        const auto number = static_cast<std::uint32_t>(c.integer());
        const auto bytes = static_cast<std::uint64_t>(c.integer());
        in.goes = GoingMemory{number, bytes, c.accept("writable")};
      }
      if (c.accept("number")) in.number = expr(c, {" bytes"});
      p_.inputs.push_back(std::move(in));
    } else if (kind == "constant") {
      b.kind = BufferKind::Constant;
      b.index = p_.constants.size();
      const bool seed = c.accept("seed");
      p_.constants.push_back({b.name, ir::zeros(c, b.dtype, b.sizes, b.strides), seed || c.accept("state"), seed});
    } else if (kind == "output") {
      b.kind = BufferKind::Output;
    } else if (kind != "temporary") {
      c.fault(fmt::format("'{}' is no kind of buffer", kind));
    }
    b.bytes = c.accept("bytes") ? expr(c, {}) : span_bytes(*p_.env, b.dtype, b.sizes, b.strides);
    if (!buffers_.emplace(b.name, id).second) c.fault(fmt::format("the buffer {} is declared twice", b.name));
    p_.buffers.push_back(std::move(b));
  }

  void symbol(LineCursor& c) {
    DefineSymbol d;
    d.symbol = read_.symbol(c);
    c.expect("=");
    if (c.accept("read")) {
      c.expect("(");
      const BufferId source = buffer_named(c);
      c.expect(")");
      if ((p_.buffers[source].dtype != DType::I64 && p_.buffers[source].dtype != DType::F64) ||
          !p_.buffers[source].sizes.empty())
        c.fault(fmt::format("{} is no single i64 or f64", p_.buffers[source].name));
      p_.lines.emplace_back(ReadSymbol{d.symbol, source});
      return;
    }
    if (c.accept("number")) {
      c.expect("(");
      const Expr value = expr(c, {});
      c.expect(")");
      p_.lines.emplace_back(SetSymbol{d.symbol, value});
      return;
    }
    const bool part = c.accept("(");
    if (c.accept("size"))
      d.from = DefineSymbol::From::Size;
    else if (c.accept("stride"))
      d.from = DefineSymbol::From::Stride;
    else if (c.accept("value"))
      d.from = DefineSymbol::From::Value;
    else
      c.fault("size, stride or value should stand here");
    c.expect("(");
    const Buffer& b = p_.buffers[buffer_named(c)];
    if (b.kind != BufferKind::Input) c.fault(fmt::format("{} is no input", b.name));
    d.input = b.index;
    c.expect(",");
    const std::int64_t dim = c.integer();
    if (dim < 0 || (d.from != DefineSymbol::From::Value && dim >= static_cast<std::int64_t>(b.sizes.size())))
      c.fault(fmt::format("{} has no dimension {}", b.name, dim));
    d.dim = static_cast<std::size_t>(dim);
    c.expect(")");
    if (part) {
      c.expect("-");
      c.expect("(");
      d.subtract = expr(c, {});
      c.expect(")");
      c.expect(")");
    }
    if (c.accept("/")) {
      c.expect("(");
      d.divide = expr(c, {});
      c.expect(")");
    }
    p_.lines.emplace_back(std::move(d));
  }

  void assertion(LineCursor& c) {
    Assert a{expr(c, {","}), ""};
    c.expect(",");
    a.message = c.quoted();
    p_.lines.emplace_back(std::move(a));
  }

  /// `comm allocate buf1 at 128`, `comm free buf1`
  void comm(LineCursor& c) {
    if (c.accept("free")) {
      p_.lines.emplace_back(FreeComm{buffer_named(c)});
      return;
    }
    c.expect("allocate");
    AllocateComm a{buffer_named(c)};
    if (c.accept("at")) a.offset = c.integer();
    p_.lines.emplace_back(a);
  }

  void reuse(LineCursor& c) {
    Reuse r;
    r.from = buffer_named(c);
    c.expect("as");
    r.to = buffer_named(c);
    p_.lines.emplace_back(r);
  }

  /// `[s0 <= 64]`
  Expr condition(LineCursor& c) {
    const Exprs one = exprs(c);
    if (one.size() != 1) c.fault("one condition is expected");
    return one[0];
  }

  /// What a call of a kernel, or an alternative, runs over.
  template <class Call>
  void range(LineCursor& c, Call& call, bool on_gpu) {
    if (!on_gpu) {
      c.expect("over");
      call.extent = expr(c, {" by "});
      c.expect("by");
      call.grain = c.integer();
      if (call.grain < 1) c.fault("a grain is at least 1");
      return;
    }
    c.expect("on");
    codegen::SymbolicLaunch& launch = call.launch.emplace();
    launch.grid = exprs(c);
    c.expect("x");
    launch.block = static_cast<int>(c.integer());
    if (launch.block < 1 || launch.block > 1024) c.fault("a block has 1 to 1024 threads");
    c.expect("threads");
    c.expect(",");
    launch.shared_bytes = expr(c, {" shared"});
    c.expect("shared");
    c.expect("bytes");
    while (c.accept("map")) launch.maps.push_back(mapped_tensor(c));
  }

  void call(LineCursor& c, bool on_gpu) {
    CallKernel k;
    k.kernel = kernel_named(c);
    c.expect("(");
    c.items(';', [&] {
      k.written.push_back(c.accept("&"));
      k.buffers.push_back(buffer_named(c));
    });
    c.expect(";");
    k.scalars = exprs(c);
    c.expect(")");
    range(c, k, on_gpu);
    if (c.accept("fails")) k.failure = c.quoted();
    if (c.accept("in place")) {
      do {
        const BufferId from = buffer_named(c);
        c.expect("->");
        k.in_place.emplace_back(from, buffer_named(c));
      } while (c.accept(","));
    }
    if (c.accept("copies")) {
      const BufferId from = buffer_named(c);
      c.expect("->");
      k.copies = {from, buffer_named(c)};
    }
    if (c.accept("when")) k.when = condition(c);
    while (c.accept("or")) {
      KernelAlternative& a = k.alternatives.emplace_back();
      a.kernel = kernel_named(c);
      c.expect("(");
      a.scalars = exprs(c);
      c.expect(")");
      range(c, a, on_gpu);
      c.expect("when");
      a.when = condition(c);
    }
    origins(c, k);
    p_.lines.emplace_back(std::move(k));
  }

  codegen::MappedTensor mapped_tensor(LineCursor& c) {
    const auto natural = [&] { return static_cast<std::uint32_t>(c.integer()); };
    codegen::MappedTensor m;
    m.pointer = natural();
    c.expect("(");
    m.offset = expr(c, {";"});
    c.expect(";");
    m.sizes = exprs(c);
    c.expect(";");
    m.strides = exprs(c);
    c.expect(")");
    c.expect("by");
    c.expect("[");
    c.items(']', [&] { m.map.box.push_back(natural()); });
    c.expect("]");
    c.expect("of");
    m.map.element = natural();
    c.expect("swizzled");
    m.map.swizzle = natural();
    return m;
  }

  void library_call(LineCursor& c) {
    CallExtern e;
    e.outputs = views(c, '=');
    c.expect("=");
    e.op = c.identifier();
    c.expect("(");
    e.inputs = views(c, ')');
    c.expect(")");
    while (!c.done()) {
      if (LineCursor ahead = c; ahead.accept("from") || ahead.accept("as") || ahead.accept("at")) break;
      const std::string key = c.identifier();
      c.expect("=");
      if (!e.attributes.emplace(key, read_.attribute(c)).second)
        c.fault(fmt::format("the attribute {} is given twice", key));
    }
    origins(c, e);
    p_.lines.emplace_back(std::move(e));
  }

  /// `part 0(x, &y; s0, u0) -> z:`
  void begin_part(LineCursor& c) {
    Part part;
    if (c.bare() != std::to_string(p_.parts.size())) c.fault(fmt::format("this is part {}", p_.parts.size()));
    c.expect("(");
    c.items(';', [&] {
      part.written.push_back(c.accept("&"));
      part.inputs.push_back(buffer_named(c));
    });
    c.expect(";");
    c.items(')', [&] { part.symbols.push_back(read_.symbol(c)); });
    c.expect(")");
    if (c.accept("->")) do
        part.outputs.push_back(buffer_named(c));
      while (c.accept(","));
    c.expect(":");
    p_.lines.emplace_back(BeginPart{p_.parts.size()});
    p_.parts.push_back(std::move(part));
  }

  /// `fallback y, None = aten.op.default(%0, [1, s0], dtype=f32) where %0 = x`; results in brackets are those of an
  /// operator that returns several values.
  void host_call(LineCursor& c) {
    CallFallback f;
    f.is_list = c.accept("[");
    const char end = f.is_list ? ']' : '=';
    c.items(end, [&] {
      if (c.accept("None"))
        f.outputs.emplace_back();
      else
        f.outputs.emplace_back(view(c));
    });
    if (f.is_list) c.expect("]");
    c.expect("=");
    f.op = c.bare();
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
    if (operands > f.inputs.size()) c.fault(fmt::format("%{} is no operand", operands - 1));
    for (std::size_t k : f.writes)
      if (k >= f.inputs.size() || f.writes.size() > f.outputs.size())
        c.fault(fmt::format("%{} is no operand that could be written to", k));
    origins(c, f);
    p_.lines.emplace_back(std::move(f));
  }

  /// `user_kernel NAME(x, &y; [8, s0]) on [4, 1, 1]`; the text has no code for the kernel.
  void user_kernel(LineCursor& c) {
    CallUserKernel k;
    k.kernel = std::make_shared<const ops::UserKernel>(ops::UserKernel{.symbol = c.identifier()});
    c.expect("(");
    c.items(';', [&] {
      k.written.push_back(c.accept("&"));
      k.tensors.push_back(view(c));
    });
    c.expect(";");
    k.numbers = exprs(c);
    c.expect(")");
    c.expect("on");
    k.grid = exprs(c);
    if (k.grid.size() != 3) c.fault("a grid has blocks along x, y and z");
    if (c.accept("fails")) k.failure = c.quoted();
    origins(c, k);
    p_.lines.emplace_back(std::move(k));
  }

  void output(LineCursor& c) {
    Output o;
    o.name = c.name();
    c.expect("=");
    if (c.accept("int")) {
      o.value = expr(c, {});
    } else if (c.accept("bool")) {
      o.value = expr(c, {});
      o.is_bool = true;
    } else if (c.accept("real")) {
      o.value = read_.real(c, std::string(c.until({" "})));
    } else {
      o.value = view(c);
    }
    p_.outputs.push_back(std::move(o));
  }

  void source(LineCursor& c) {
    std::string name = c.name();
    c.expect("=");
    p_.source.emplace_back(std::move(name), c.quoted());
  }

  std::string_view text_;
  Program p_;
  ir::PartReader read_;
  std::map<std::string, BufferId, std::less<>> buffers_;
  std::map<std::string, std::size_t, std::less<>> kernels_;
  std::optional<std::size_t> open_text_;  ///< the kernel whose text is being read
};

}  // namespace

Program parse(std::string_view text) { return Parser(text).run(); }

bool is_wrapper_text(std::string_view text) { return first_line(text).starts_with("wrapper "); }

}  // namespace coil::wrapper
