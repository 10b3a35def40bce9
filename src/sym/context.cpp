#include <deque>

#include "sym/node.h"

namespace coil::sym {

namespace {

constexpr std::size_t kBlockBytes = 64 * 1024;

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return h ^ (h >> 29);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int sign(bool less) { return less ? -1 : 1; }

int compare_names(const Node& a, const Node& b) {
  if (int c = a.name.substr(0, a.prefix).compare(b.name.substr(0, b.prefix))) return c < 0 ? -1 : 1;
  if (a.number != b.number) return sign(a.number < b.number);
  int c = a.name.compare(b.name);  // `s1` and `s01`
  return c < 0 ? -1 : c > 0;
}

}  // namespace

struct Context::Impl {
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::size_t used = kBlockBytes;
  std::deque<std::string> names;
  std::unordered_map<std::string_view, const Node*> symbols;
  std::vector<const Node*> table = std::vector<const Node*>(1024);  // open addressing, a power of two
  std::size_t count = 0;

  void* allocate(std::size_t bytes) {
    bytes = (bytes + 15) & ~std::size_t{15};
    if (bytes > kBlockBytes / 4) {  // a block of its own, behind the one being filled
      blocks.insert(blocks.end() - (blocks.empty() ? 0 : 1), std::make_unique_for_overwrite<std::byte[]>(bytes));
      return blocks.size() == 1 ? (used = kBlockBytes, blocks[0].get()) : blocks[blocks.size() - 2].get();
    }
    if (used + bytes > kBlockBytes) {
      blocks.push_back(std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
      used = 0;
    }
    void* p = blocks.back().get() + used;
    used += bytes;
    return p;
  }

  void grow() {
    std::vector<const Node*> larger(table.size() * 2);
    for (const Node* n : table) {
      if (!n) continue;
      std::size_t i = n->hash & (larger.size() - 1);
      while (larger[i]) i = (i + 1) & (larger.size() - 1);
      larger[i] = n;
    }
    table.swap(larger);
  }

  Expr find_or_add(Kind kind, std::span<const Expr> operands, const Node* monomial) {
    std::uint64_t hash = mix(0x5bd1e995, static_cast<std::uint64_t>(kind));
    for (const Expr& e : operands) hash = mix(hash, e.hash());
    std::size_t i = hash & (table.size() - 1);
    for (; table[i]; i = (i + 1) & (table.size() - 1)) {
      const Node& n = *table[i];
      if (n.hash == hash && n.kind == kind && std::ranges::equal(std::span(n.operands, n.count), operands))
        return Expr(&n);
    }
    if (count * 2 >= table.size()) {
      grow();
      i = hash & (table.size() - 1);
      while (table[i]) i = (i + 1) & (table.size() - 1);
    }
    auto* node = new (allocate(sizeof(Node))) Node;
    auto* copy = static_cast<Expr*>(allocate(operands.size_bytes()));
    std::ranges::uninitialized_copy(operands, std::span(copy, operands.size()));
    node->hash = hash;
    node->owner = this;
    node->monomial = monomial;
    node->operands = copy;
    node->count = static_cast<std::uint32_t>(operands.size());
    node->kind = kind;
    node->polynomial = kind == Kind::Add || kind == Kind::Mul;
    for (const Expr& e : operands) {
      const Node* below = e.node();
      node->weight = std::min(Node::kMaxWeight, node->weight + (below ? below->weight : 1));
      if (!below) continue;
      COIL_CHECK(below->owner == this, "an expression over symbols of two contexts");
      node->symbol_filter |= below->symbol_filter;
      node->symbol_kinds |= below->symbol_kinds;
      node->polynomial &= below->polynomial;
    }
    table[i] = node;
    ++count;
    return Expr(node);
  }
};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

Expr Context::symbol(std::string_view name, SymbolKind kind) {
  if (auto it = impl_->symbols.find(name); it != impl_->symbols.end()) {
    if (it->second->symbol_kind != kind) fail("the symbol {} is used both as a size and as something else", name);
    return Expr(it->second);
  }
  const std::string& kept = impl_->names.emplace_back(name);
  auto* node = new (impl_->allocate(sizeof(Node))) Node;
  node->owner = impl_.get();
  node->name = kept;
  node->kind = Kind::Symbol;
  node->symbol_kind = kind;
  node->symbol_kinds = static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
  node->symbol_filter = std::uint64_t{1} << (impl_->symbols.size() % 64);
  node->polynomial = true;
  node->hash = mix(0x2545f491, static_cast<std::uint64_t>(kind));
  for (unsigned char c : kept) node->hash = mix(node->hash, c);
  std::size_t digits = 0;
  while (digits < kept.size() && digits < 18 && is_digit(kept[kept.size() - 1 - digits])) ++digits;
  node->prefix = static_cast<std::uint32_t>(kept.size() - digits);
  for (char c : kept.substr(node->prefix)) node->number = node->number * 10 + static_cast<std::uint64_t>(c - '0');
  impl_->symbols.emplace(kept, node);
  return Expr(node);
}

std::optional<Expr> Context::find(std::string_view name) const {
  auto it = impl_->symbols.find(name);
  return it == impl_->symbols.end() ? std::nullopt : std::optional(Expr(it->second));
}

Expr intern(Kind kind, std::span<const Expr> operands, const Node* monomial) {
  for (const Expr& e : operands)
    if (e.node()) return e.node()->owner->find_or_add(kind, operands, monomial);
  // Constants are folded, but for those whose result does not fit.
  fail("a size leaves the range of 64-bit integers");
}

Kind Expr::kind() const { return node_ ? node_->kind : Kind::Constant; }

std::string_view Expr::name() const {
  COIL_CHECK(is_symbol(), "the name of an expression that is not a symbol");
  return node_->name;
}

SymbolKind Expr::symbol_kind() const {
  COIL_CHECK(is_symbol(), "the symbol kind of an expression that is not a symbol");
  return node_->symbol_kind;
}

std::span<const Expr> Expr::operands() const {
  return node_ ? std::span(node_->operands, node_->count) : std::span<const Expr>();
}

std::uint64_t Expr::hash() const { return node_ ? node_->hash : mix(0x9ae16a3b, static_cast<std::uint64_t>(value_)); }

int compare(Expr a, Expr b) {
  while (true) {
    if (a == b) return 0;
    if (a.is_constant() || b.is_constant()) {
      if (a.is_constant() && b.is_constant()) return sign(*a.constant() < *b.constant());
      return sign(a.is_constant());
    }
    const Node &m = *a.node(), &n = *b.node();
    if (m.kind != n.kind) return sign(m.kind < n.kind);
    if (m.kind == Kind::Symbol) return compare_names(m, n);
    if (m.kind == Kind::Mul && (m.monomial || n.monomial)) {  // by monomial, then by coefficient
      Term s = split(a), t = split(b);
      if (s.monomial == t.monomial) return sign(s.coefficient < t.coefficient);
      a = s.monomial, b = t.monomial;
      continue;
    }
    if (m.count != n.count) return sign(m.count < n.count);
    std::uint32_t i = 0;
    while (m.operands[i] == n.operands[i]) ++i;
    a = m.operands[i], b = n.operands[i];
  }
}

bool before(Expr a, Expr b) { return compare(a, b) < 0; }

}  // namespace coil::sym
