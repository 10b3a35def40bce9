#include <charconv>
#include <limits>

#include "fx/text.h"
#include "support/error.h"
#include "support/text_cursor.h"
#include "sym/floats.h"
#include "sym/print.h"

namespace coil::fx {

namespace {

class Parser final : TextCursor {
 public:
  explicit Parser(std::string_view text) : TextCursor(text, " \t\r") {}

  std::unique_ptr<GraphModule> parse() {
    auto m = std::make_unique<GraphModule>();
    env_ = m->env;
    module(*m, true);
    skip();
    if (at_ != text_.size()) expected("the end");
    return m;
  }

 private:
  // --- characters

  [[noreturn]] void fault_at(std::size_t at, const std::string& message) const {
    std::string_view before = text_.substr(0, at);
    auto line = std::count(before.begin(), before.end(), '\n') + 1;
    std::size_t begin = before.rfind('\n');
    fail("line {}, column {}: {}", line, begin == before.npos ? at + 1 : at - begin, message);
  }
  [[noreturn]] void expected(std::string_view wanted) const override {
    std::string_view found = text_.substr(at_, text_.substr(at_, 20).find('\n'));
    fault_at(at_, fmt::format("expected {}, found {}", wanted,
                              at_ == text_.size() ? "the end" : ops::quote(found.substr(0, 20))));
  }
  /// Blanks, line ends and comments.
  void skip() {
    while (!done()) {
      if (text_[at_] == '\n')
        ++at_;
      else if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        break;
    }
  }
  using TextCursor::accept;
  using TextCursor::expect;
  bool accept(std::string_view word) {
    if (look() != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) expected(fmt::format("`{}`", word));
  }
  std::string_view name(std::string_view what = "a name") {
    std::string_view w = look();
    if (w.empty()) expected(what);
    at_ += w.size();
    return w;
  }
  /// A target, path or key: plain or in quotes.
  std::string word(std::string_view what) {
    if (peek() == '"') return string();
    std::string_view w = look(".");
    if (w.empty()) expected(what);
    at_ += w.size();
    return std::string(w);
  }

  std::string string() {
    std::size_t begin = at_;
    expect('"');
    std::string out;
    for (; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      char c = ++at_ < text_.size() ? text_[at_] : '\0';
      if (c == 'n')
        out += '\n';
      else if (c == 't')
        out += '\t';
      else if (c == '"' || c == '\\')
        out += c;
      else if (c == 'x') {
        unsigned v = 0;
        const char* digits = text_.data() + at_ + 1;
        if (at_ + 3 > text_.size() || std::from_chars(digits, digits + 2, v, 16).ptr != digits + 2)
          expected("two hexadecimal digits");
        out += static_cast<char>(v);
        at_ += 2;
      } else {
        expected("an escape: \\n, \\t, \\\", \\\\ or \\xHH");
      }
    }
    if (at_ >= text_.size() || text_[at_] != '"') fault_at(begin, "the string has no end");
    ++at_;
    return out;
  }

  std::int64_t integer() {
    peek();
    std::int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc{}) expected("an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return v;
  }

  // --- values

  /// Text up to what ends a value: `,`, `=`, a closing bracket, a comment or the line's end, outside brackets of its
  /// own.
  std::string_view extent(std::string_view also = "") {
    skip_blanks();
    std::size_t end = at_;
    for (int depth = 0; end < text_.size(); ++end) {
      char c = text_[end];
      if (c == '\n' || c == '#') break;
      bool relation =
          c == '=' && (end > at_ && std::string_view("<>!=").find(text_[end - 1]) != std::string_view::npos);
      if (depth == 0 && !relation && (c == ',' || c == '=' || also.find(c) != also.npos)) break;
      if (c == '(' || c == '[') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth-- == 0) break;
    }
    std::string_view found = text_.substr(at_, end - at_);
    while (!found.empty() && (found.back() == ' ' || found.back() == '\t' || found.back() == '\r'))
      found.remove_suffix(1);
    return found;
  }

  /// `mul`, or `mul, FloatMul(0.5, ToFloat(s0))`
  ops::SymFloat symbolic_float() {
    ops::SymFloat f{std::string(name())};
    if (accept(',')) f.value = read_expression("", sym::parse_float);
    return f;
  }

  Expr expression(std::string_view also = "") { return read_expression(also, sym::parse); }

  template <class Parse>
  Expr read_expression(std::string_view also, const Parse& parse) {
    std::string_view source = extent(also);
    if (source.empty()) expected("an expression");
    std::size_t begin = at_;
    at_ += source.size();
    try {
      return parse(source, [&](std::string_view symbol) -> Expr {
        if (auto known = env_->context().find(symbol)) return *known;
        fail("the symbol {} is not declared in the graph's header", symbol);
      });
    } catch (const Error& e) {
      fault_at(begin, e.what());
    }
  }

  Exprs expressions(char close, std::string_view also = "") {
    Exprs all;
    if (accept(close)) return all;
    do all.push_back(expression(also));
    while (accept(','));
    expect(close);
    return all;
  }

  TensorMeta tensor(DType dtype) {
    expect('[');
    TensorMeta t = sym::contiguous(dtype, Device{}, expressions(']'));
    for (Expr size : t.sizes)
      if (size.is_constant() && *size.constant() < 0) fault_at(at_ - 1, fmt::format("a size of {}", *size.constant()));
    if (accept('{')) {
      t.strides = expressions('}');
      if (t.strides.size() != t.sizes.size())
        fault_at(at_, fmt::format("{} sizes but {} strides", t.sizes.size(), t.strides.size()));
    }
    if (accept('+')) t.offset = expression("@");
    if (accept('@')) t.device = device();
    return t;
  }

  Device device() {
    std::string_view w = look(":");
    at_ += w.size();
    return parse_device(std::string(w));
  }

  Value value() {
    // Lists nest as deep as calls here do; a program has no use for more.
    struct Depth {
      int& depth;
      ~Depth() { --depth; }
    } nested{depth_};
    if (++depth_ > 64) expected("a list that nests less deep");
    char c = peek();
    if (c == '%') {
      ++at_;
      std::size_t begin = at_;
      std::string_view n = name("a node's name");
      if (Node* found = graph_->find(n)) return found;
      fault_at(begin, fmt::format("no node is named %{}", n));
    }
    if (c == '"') return string();
    if (accept('@')) return ops::GraphRef{word("a subgraph's name")};
    if (accept('[')) return items(']');
    std::string_view w = look();
    auto taken = [&](auto v) -> Value {
      at_ += w.size();
      return v;
    };
    if (w == "None") return taken(ops::None{});
    if (w == "True") return taken(true);
    if (w == "False") return taken(false);
    if (w == "cpu" || w == "cuda" || w == "meta") return device();
    if (w == "Bool" || w == "SymFloat") {
      at_ += w.size();
      expect('(');
      Value v = w == "Bool" ? Value(ops::Bool{expression()}) : Value(symbolic_float());
      expect(')');
      return v;
    }
    using enum ops::MemoryFormat;
    for (auto f : {Contiguous, Preserve, ChannelsLast, ChannelsLast3d})
      if (ops::name_of(f) == w) return taken(f);
    for (auto l : {ops::TensorLayout::Strided, ops::TensorLayout::Sparse})
      if (ops::name_of(l) == w) return taken(l);
    if (auto dtype = dtype_from_short_name(w)) {
      if (text_.substr(at_ + w.size(), 1) == "[") return at_ += w.size(), tensor(*dtype);
      if (extent() == w) return taken(*dtype);  // `u8 + 1` is about a size of that name
    }
    return number();
  }

  Value number() {
    std::string_view source = extent();
    double d = 0;
    auto [end, error] = std::from_chars(source.data(), source.data() + source.size(), d);
    if (error != std::errc::invalid_argument && end == source.data() + source.size() &&
        source.find_first_of(".en") != source.npos) {
      if (error == std::errc::result_out_of_range) expected("a float that a double can hold");
      at_ += source.size();
      return d;
    }
    return expression();
  }

  Values items(char close) {
    Values all;
    while (!accept(close)) {
      if (!all.empty()) {
        expect(',');
        if (accept(close)) break;
      }
      all.push_back(value());
    }
    return all;
  }

  // --- graphs

  void module(GraphModule& m, bool top) {
    Graph* outer = std::exchange(graph_, &m.graph);
    skip();
    const std::size_t indent = column();
    expect("graph");
    if (top && peek() != '(') m.name = word("a name or `(`");
    expect('(');
    if (!accept(')')) {
      if (!top) expected("`)`: symbols are declared by the outermost graph");
      do symbol();
      while (accept(','));
      expect(')');
    }
    expect(':');
    while (!m.graph.output()) statement();
    signature(m, indent);
    graph_ = outer;
  }

  void symbol() {
    std::string_view n = name("a symbol");
    if (std::isdigit(static_cast<unsigned char>(n[0])) || is_reserved(n))
      fault_at(at_ - n.size(), fmt::format("`{}` cannot name a symbol", n));
    if (env_->context().find(n)) fault_at(at_ - n.size(), fmt::format("the symbol {} is declared twice", n));
    expect(':');
    bool unbacked = accept("unbacked");
    expect('[');
    sym::Range range;
    range.low = bound();
    expect(',');
    range.high = bound();
    expect(']');
    std::optional<std::int64_t> hint;
    if (accept('=')) hint = integer();
    if (range.low > range.high) expected("a range with a value in it");
    if (unbacked)
      env_->add_unbacked(n, range);
    else
      env_->add_size(n, hint, range);
  }

  std::int64_t bound() {
    if (accept("inf")) return sym::Range::kMax;
    if (peek() == '-' && text_.substr(at_, 4) == "-inf") {
      at_ += 4;
      return sym::Range::kMin;
    }
    return integer();
  }

  void statement() {
    skip();
    if (accept("return")) {
      expect('(');
      Node* n = graph_->output(items(')'));
      comments(n);
      return;
    }
    if (peek() != '%') expected("a node or `return`");
    ++at_;
    std::size_t begin = at_;
    std::string node_name(name("a node's name"));
    if (graph_->find(node_name)) fault_at(begin, fmt::format("%{} is defined twice", node_name));
    Value type;
    if (accept(':')) type = value();
    expect('=');
    Node* n = nullptr;
    if (accept("placeholder")) {
      std::string t = target();
      n = graph_->placeholder(node_name, {});
      n->target = t;
    } else if (accept("get_attr")) {
      n = graph_->get_attr(node_name, target(), {});
    } else {
      expect("call_function");
      n = call(node_name, target());
    }
    if (n->name != node_name) fault_at(begin, fmt::format("`{}` cannot name a node", node_name));
    n->meta.value = std::move(type);
    comments(n);
    if (n->meta.origins.empty()) n->meta.origins = {n->name};
  }

  std::string target() {
    expect('['), expect("target"), expect('=');
    std::string t = word("a target");
    expect(']');
    return t;
  }

  Node* call(const std::string& node_name, const std::string& t) {
    std::size_t begin = at_;
    expect('('), expect("args"), expect('='), expect('(');
    Values args = items(')');
    expect(','), expect("kwargs"), expect('='), expect('{');
    std::vector<std::pair<std::string, Value>> named;
    while (!accept('}')) {
      if (!named.empty()) expect(',');
      std::string key(name("an argument's name"));
      expect(':');
      named.emplace_back(std::move(key), value());
    }
    expect(')');
    if (const ops::Operator* op = ops::find(t)) {
      try {
        args = ops::normalize(*op, std::move(args), std::exchange(named, {}));
      } catch (const Error& e) {
        fault_at(begin, e.what());
      }
    }
    return graph_->call(t, std::move(args), node_name, std::move(named));
  }

  /// What follows a node on its line: `# at model.py:12`, `# from add, mul`, other comments.
  void comments(Node* n) {
    peek();
    std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view rest = text_.substr(at_, end - at_);
    at_ = end;
    if (!rest.empty() && rest[0] != '#') fault_at(end - rest.size(), "expected the line's end");
    while (!rest.empty()) {
      std::size_t next = rest.find('#', 1);
      std::string_view one = rest.substr(1, next == rest.npos ? next : next - 1);
      rest = next == rest.npos ? "" : rest.substr(next);
      while (!one.empty() && one.back() == ' ') one.remove_suffix(1);
      if (one.starts_with(" at ") && one.rfind(':') != one.npos) {
        std::size_t colon = one.rfind(':');
        n->meta.stack_trace =
            fmt::format("File \"{}\", line {}, in forward", one.substr(4, colon - 4), one.substr(colon + 1));
      } else if (one.starts_with(" from ")) {
        one.remove_prefix(6);
        for (std::size_t comma; !one.empty(); one.remove_prefix(std::min(comma + 2, one.size()))) {
          comma = std::min(one.find(", "), one.size());
          n->meta.origins.emplace_back(one.substr(0, comma));
        }
      }
    }
  }

  std::size_t column() const { return at_ - (text_.substr(0, at_).rfind('\n') + 1); }

  /// The lines that follow a graph. Those of a subgraph are indented as it is; others belong to the graph around it.
  void signature(GraphModule& m, std::size_t indent) {
    std::vector<Node*> placeholders = m.graph.placeholders();
    for (;;) {
      skip();
      if (column() != indent) break;
      if (accept("input")) {
        Input in;
        expect('%');
        in.placeholder = name("an input's name");
        Node* n = m.graph.find(in.placeholder);
        if (!n || n->opcode != Opcode::Placeholder) fault_at(at_ - in.placeholder.size(), "no such input");
        in.path = string();
        if (accept('=')) in.constant = value();
        if (accept("strides")) {
          const Value strides = value();
          if (!strides.is<Values>() || !n->is_tensor() || strides.as_list().size() != n->tensor().rank())
            expected("one stride for each dimension");
          in.strides.emplace();
          for (const Value& s : strides.as_list()) in.strides->push_back(s.as_int());
        }
        if (accept("goes")) {
          const auto number = static_cast<std::uint32_t>(integer());
          const auto bytes = static_cast<std::uint64_t>(integer());
          in.goes = GoingMemory{number, bytes, accept("writable")};
        }
        m.inputs.push_back(std::move(in));
      } else if (accept("output")) {
        m.outputs.push_back({string()});
        m.outputs.back().any_strides = accept("any_strides");
      } else if (accept("mutation")) {
        mutation(m);
      } else if (accept("subgraph")) {
        std::string key = word("a subgraph's name");
        expect(':');
        auto& sub = m.subgraphs[key];
        if (sub) fault_at(at_, fmt::format("the subgraph {} is defined twice", key));
        if (++depth_ > 16) expected("subgraphs that nest less deep");
        sub = std::make_unique<GraphModule>();
        sub->env = m.env;
        sub->name = key;
        module(*sub, false);
        --depth_;
      } else {
        break;
      }
    }
    if (m.inputs.empty())
      for (Node* n : placeholders) m.inputs.push_back({n->name, n->name, {}});
    std::size_t results = m.graph.output()->args.size();
    if (m.mutations.size() > results) expected("a result for each mutation");
    std::size_t count = results - m.mutations.size();
    if (m.outputs.empty())
      for (std::size_t i = 0; i < count; ++i) m.outputs.push_back({plain_output_name(i, count)});
    if (m.outputs.size() != count) expected(fmt::format("{} `output` lines", count));
  }

  void mutation(GraphModule& m) {
    Mutation w;
    if (accept("attribute"))
      w.kind = Mutation::Target::Attribute;
    else
      expect("input");
    w.target = word("what is written");
    expect('=');
    std::int64_t index = integer();
    if (index < 0 || index >= static_cast<std::int64_t>(m.graph.output()->args.size()))
      expected("the position of a result");
    w.output = static_cast<std::size_t>(index);
    m.mutations.push_back(std::move(w));
  }

  std::shared_ptr<sym::ShapeEnv> env_;
  Graph* graph_ = nullptr;
  int depth_ = 0;
};

}  // namespace

bool is_reserved(std::string_view word) {
  static constexpr std::string_view kWords[] = {"None",
                                                "True",
                                                "False",
                                                "inf",
                                                "nan",
                                                "cpu",
                                                "cuda",
                                                "meta",
                                                "Bool",
                                                "SymFloat",
                                                "Min",
                                                "Max",
                                                "FloorDiv",
                                                "CeilDiv",
                                                "Mod",
                                                "Where",
                                                "Eq",
                                                "Ne",
                                                "And",
                                                "Or",
                                                "Not",
                                                "contiguous_format",
                                                "preserve_format",
                                                "channels_last",
                                                "channels_last_3d",
                                                "strided",
                                                "sparse_coo"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

std::unique_ptr<GraphModule> parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace coil::fx
