#include "fx/graph.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "support/error.h"

namespace coil::fx {

const std::string& name_of(const Node& node) { return node.name; }

namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return text.starts_with(p); });
}

/// `aten.add.Tensor` is named `add`, `_operator.getitem` `getitem`, `torch.ops.higher_order.cond` `cond`.
std::string_view base_name(std::string_view target) {
  if (starts_with_any(target,
                      {"torch.ops.higher_order.", "higher_order.", "_operator.", "torch.", "math.", "builtins."}))
    return target.substr(target.rfind('.') + 1);
  std::size_t first = target.find('.');
  if (first == target.npos) return target;
  std::string_view rest = target.substr(first + 1);
  return rest.substr(0, rest.find('.'));
}

/// A name that the text form can print and read back.
std::string as_identifier(std::string_view wanted) {
  std::string out;
  for (char c : wanted) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(out.begin(), '_');
  return out;
}

/// `add_1` without its number.
std::string_view without_number(std::string_view name) {
  std::size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  if (digits < 2 || digits == name.size() || name[digits - 1] != '_') return name;
  return name.substr(0, digits - 1);
}

void collect_unbacked(const Value& v, std::set<std::string_view>& names) {
  auto take = [&](const Exprs& list) {
    for (Expr e : list)
      if (sym::has_symbol_of(e, sym::SymbolKind::Unbacked))
        for (Expr s : sym::free_symbols(e))
          if (s.symbol_kind() == sym::SymbolKind::Unbacked) names.insert(s.name());
  };
  if (auto* t = v.get_if<TensorMeta>())
    take(t->sizes), take(t->strides), take(Exprs{t->offset});
  else if (auto* e = v.get_if<Expr>())
    take(Exprs{*e});
  else if (auto* b = v.get_if<ops::Bool>())
    take(Exprs{b->condition});
  else if (auto* list = v.get_if<Values>())
    for (const Value& item : *list) collect_unbacked(item, names);
}

/// Whether a size that depends on data begins here: sizes of others may name it without naming the node.
bool defines_symbol(const Node& n) {
  std::set<std::string_view> made, given;
  collect_unbacked(n.meta.value, made);
  if (made.empty()) return false;
  for (const Value& arg : n.args) {
    collect_unbacked(arg, given);
    ops::for_each_node(arg, [&](const Node* input) { collect_unbacked(input->meta.value, given); });
  }
  return !std::includes(given.begin(), given.end(), made.begin(), made.end());
}

/// Whether a call without users may go.
bool is_removable(const Node& n) {
  if (n.opcode == Opcode::GetAttr) return true;
  if (n.opcode != Opcode::CallFunction) return false;
  if (n.op) return !n.op->side_effect && !n.op->schema.is_mutating();
  return starts_with_any(n.target, {"_operator.", "torch.sym_", "torch._sym_", "math.", "builtins."});
}

}  // namespace

Node::Node(Graph* graph, Opcode opcode, std::string name, std::string target)
    : opcode(opcode), name(std::move(name)), target(std::move(target)), graph_(graph) {}

const Value& Node::arg(std::string_view wanted) const {
  if (!op) fail("{} (node %{}) has no schema to look up argument {} in", target, name, wanted);
  return args.at(op->schema.index(wanted));
}

namespace {

/// The nodes that a node takes, each once, in order.
std::vector<Node*> inputs_of(Node& node) {
  std::vector<Node*> inputs;
  auto take = [&](Node* n) { inputs.push_back(n); };
  for (Value& v : node.args) ops::for_each_node(v, take);
  for (auto& [name, v] : node.kwargs) ops::for_each_node(v, take);
  if (inputs.size() < 2) return inputs;
  std::vector<Node*> once;
  if (inputs.size() <= 16) {
    for (Node* n : inputs)
      if (std::find(once.begin(), once.end(), n) == once.end()) once.push_back(n);
    return once;
  }
  std::unordered_set<Node*> seen;
  for (Node* n : inputs)
    if (seen.insert(n).second) once.push_back(n);
  return once;
}

}  // namespace

void Node::link_inputs() {
  for (Node* n : inputs_of(*this)) n->add_user(this);
}

void Node::unlink_inputs() {
  for (Node* n : inputs_of(*this)) n->remove_user(this);
}

void Node::add_user(Node* user) {
  if (!position_.empty()) position_[user] = users_.size();
  users_.push_back(user);
}

void Node::remove_user(Node* user) {
  constexpr std::size_t kFew = 32;
  std::size_t at = users_.size();
  if (users_.size() <= kFew) {
    // From the back: passes mostly take away what came last.
    auto it = std::find(users_.rbegin(), users_.rend(), user);
    if (it != users_.rend()) at = static_cast<std::size_t>(users_.rend() - it) - 1;
  } else {
    if (position_.empty()) {
      close_holes();
      for (std::size_t i = 0; i < users_.size(); ++i) position_[users_[i]] = i;
    }
    if (auto it = position_.find(user); it != position_.end()) at = it->second;
  }
  COIL_CHECK(at < users_.size(), "%{} uses %{}, which does not know it", user->name, name);
  position_.erase(user);
  users_[at] = nullptr;
  ++holes_;
  if (users_.size() <= kFew || holes_ * 2 > users_.size()) close_holes();
}

void Node::close_holes() const {
  std::erase(users_, nullptr);
  holes_ = 0;
  position_.clear();
}

void Node::set_arg(std::size_t index, Value value) {
  COIL_CHECK(index < args.size(), "%{} has no argument {}", name, index);
  unlink_inputs();
  args[index] = std::move(value);
  link_inputs();
}

void Node::set_args(Values values) {
  unlink_inputs();
  args = std::move(values);
  link_inputs();
}

void Node::replace_all_uses_with(Node* other, const Node* except) {
  if (other == this) return;
  close_holes();
  std::vector<Node*> users = std::exchange(users_, {});
  auto swap = [&](Node*& n) {
    if (n == this) n = other;
  };
  for (Node* user : users) {
    if (user == except) {
      add_user(user);
      continue;
    }
    // A user that takes both is listed there already.
    const std::vector<Node*> inputs = inputs_of(*user);
    const bool listed = std::find(inputs.begin(), inputs.end(), other) != inputs.end();
    for (Value& v : user->args) ops::for_each_node(v, swap);
    for (auto& [name, v] : user->kwargs) ops::for_each_node(v, swap);
    if (!listed) other->add_user(user);
  }
}

std::string Node::where() const {
  // Frames are `File "/path/model.py", line 12, in forward`; the innermost that is not torch's own is the user's.
  std::string last;
  std::string_view trace = meta.stack_trace;
  constexpr std::string_view kFile = "File \"";
  for (std::size_t at = trace.find(kFile); at != trace.npos; at = trace.find(kFile, at)) {
    at += kFile.size();
    std::size_t quote = trace.find('"', at);
    if (quote == trace.npos) break;
    std::string_view path = trace.substr(at, quote - at);
    constexpr std::string_view kLine = "\", line ";
    if (trace.substr(quote, kLine.size()) != kLine) continue;
    std::size_t digits = quote + kLine.size(), end = digits;
    while (end < trace.size() && std::isdigit(static_cast<unsigned char>(trace[end]))) ++end;
    bool torch = path.find("/torch/") != path.npos || path.starts_with("torch/") || path.starts_with('<');
    if (torch && !last.empty()) continue;
    std::string_view file = path.substr(path.find_last_of("/\\") + 1);
    last = fmt::format("{}:{}", file, trace.substr(digits, end - digits));
  }
  return last;
}

Graph::~Graph() {
  for (Node* n = first_; n;) delete std::exchange(n, n->next_);
}

Snapshot Graph::nodes() const {
  std::vector<Node*> all;
  all.reserve(size_);
  for (Node* n = first_; n; n = n->next_) all.push_back(n);
  return Snapshot(std::move(all));
}

Node* Graph::find(std::string_view name) const {
  auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}

std::vector<Node*> Graph::placeholders() const {
  std::vector<Node*> found;
  for (Node* n = first_; n; n = n->next_)
    if (n->opcode == Opcode::Placeholder) found.push_back(n);
  return found;
}

Node* Graph::output() const { return last_ && last_->opcode == Opcode::Output ? last_ : nullptr; }

Node* Graph::set_insert_point(Node* before) {
  COIL_CHECK(!before || before->graph_ == this);
  return std::exchange(insert_before_, before);
}

std::string Graph::unique_name(std::string_view wanted) {
  std::string name = as_identifier(wanted);
  if (!by_name_.contains(name)) return name;
  std::string base(without_number(name));
  int& next = next_suffix_[base];
  do name = fmt::format("{}_{}", base, ++next);
  while (by_name_.contains(name));
  return name;
}

Node* Graph::add(Opcode opcode, std::string_view name, std::string_view target) {
  Node* node = new Node(this, opcode, unique_name(name), std::string(target));
  by_name_[node->name] = node;
  node->next_ = insert_before_;
  node->prev_ = insert_before_ ? insert_before_->prev_ : last_;
  (node->prev_ ? node->prev_->next_ : first_) = node;
  (node->next_ ? node->next_->prev_ : last_) = node;
  ++size_;
  return node;
}

Node* Graph::placeholder(std::string_view name, Value meta) {
  Node* node = add(Opcode::Placeholder, name, name);
  node->meta.value = std::move(meta);
  return node;
}

Node* Graph::get_attr(std::string_view name, std::string_view attribute, Value meta) {
  Node* node = add(Opcode::GetAttr, name.empty() ? attribute : name, attribute);
  node->meta.value = std::move(meta);
  return node;
}

Node* Graph::call(std::string_view target, Values args, std::string_view name,
                  std::vector<std::pair<std::string, Value>> kwargs) {
  const ops::Operator* op = ops::find(target);
  COIL_CHECK(!op || (args.size() == op->schema.parameters.size() && kwargs.empty()),
             "arguments of {} are not in the schema's order", target);
  Node* node = add(Opcode::CallFunction, name.empty() ? base_name(target) : name, target);
  node->op = op;
  node->args = std::move(args);
  node->kwargs = std::move(kwargs);
  node->link_inputs();
  return node;
}

Node* Graph::output(Values results) {
  COIL_CHECK(!output(), "a graph has one output node");
  Node* node = add(Opcode::Output, "output", "output");
  node->args = std::move(results);
  node->link_inputs();
  return node;
}

void Graph::inherit(Node* made, const Node* from) {
  made->meta.stack_trace = from->meta.stack_trace;
  made->meta.module_path = from->meta.module_path;
  made->meta.origins = from->meta.origins;
  if (from->opcode == Opcode::CallFunction && !from->asked().starts_with("_operator."))
    made->meta.part_of = from->asked();
}

void Graph::erase(Node* node) {
  COIL_CHECK(node->graph_ == this && !node->erased_, "%{} is not in this graph", node->name);
  COIL_CHECK(node->users().empty(), "%{} still has users", node->name);
  node->unlink_inputs();
  if (insert_before_ == node) insert_before_ = node->next_;
  (node->prev_ ? node->prev_->next_ : first_) = node->next_;
  (node->next_ ? node->next_->prev_ : last_) = node->prev_;
  by_name_.erase(node->name);
  --size_;
  node->erased_ = true;
  node->opcode = Opcode::CallFunction;
  node->target.clear();
  node->op = nullptr;
  node->args = {};
  node->kwargs = {};
  node->meta = {};
  erased_.emplace_back(node);
}

void Graph::move_before(Node* node, Node* before) {
  COIL_CHECK(node->graph_ == this && before->graph_ == this);
  if (node == before || node->next_ == before) return;
  if (insert_before_ == node) insert_before_ = node->next_;
  (node->prev_ ? node->prev_->next_ : first_) = node->next_;
  (node->next_ ? node->next_->prev_ : last_) = node->prev_;
  node->prev_ = before->prev_;
  node->next_ = before;
  (node->prev_ ? node->prev_->next_ : first_) = node;
  before->prev_ = node;
}

std::size_t Graph::eliminate_dead_code() {
  std::size_t removed = 0;
  for (Node* n = last_; n;) {
    Node* before = n->prev_;
    if (n->users().empty() && is_removable(*n) && !defines_symbol(*n)) erase(n), ++removed;
    n = before;
  }
  return removed;
}

void Graph::lint() const {
  std::unordered_map<const Node*, std::vector<const Node*>> users;
  std::unordered_set<const Node*> defined;
  std::size_t count = 0;
  for (Node* n = first_; n; n = n->next_) {
    ++count;
    if (find(n->name) != n) fail("graph: the name %{} leads to another node", n->name);
    if ((n->next_ ? n->next_->prev_ : last_) != n) fail("graph: links around %{} disagree", n->name);
    if (n->opcode == Opcode::Output && n != last_) fail("graph: %{} follows the output", n->next_->name);
    for (Node* input : inputs_of(*n)) {
      if (!defined.contains(input)) fail("graph: %{} is used by %{} before its definition", input->name, n->name);
      users[input].push_back(n);
    }
    defined.insert(n);
  }
  if (count != size_ || by_name_.size() != size_) fail("graph: {} nodes are linked, {} counted", count, size_);
  for (Node* n = first_; n; n = n->next_) {
    std::vector<const Node*> listed(n->users().begin(), n->users().end()), found = users[n];
    std::sort(listed.begin(), listed.end());
    std::sort(found.begin(), found.end());
    if (listed != found) fail("graph: the users of %{} are listed wrongly", n->name);
  }
}

bool GraphModule::is_constant(const std::string& attribute) const {
  return !exchanged.contains(attribute) && std::ranges::none_of(mutations, [&](const Mutation& m) {
    return m.kind == Mutation::Target::Attribute && m.target == attribute;
  });
}

}  // namespace coil::fx
