#include "passes/wrapper/chunk_collectives.h"

#include <algorithm>

#include "library_ops/collectives.h"
#include "library_ops/products.h"
#include "library_ops/table.h"
#include "passes/wrapper/line_costs.h"
#include "passes/wrapper/memory_order.h"
#include "scheduler/exchange_chunks.h"

namespace coil::wrapper {
namespace {

namespace names = library_ops::collectives;
using library_ops::EpilogueCall;
using library_ops::PostOp;
using library_ops::Trait;
using names::RowExchange;
using scheduler::ChunkTime;

constexpr std::size_t kMost = 8;               // chunks that the model asks for
constexpr std::int64_t kTile = 128;            // rows that chunks on a GPU are multiples of, where there are enough
constexpr std::int64_t kLeastBytes = 1 << 20;  // of an exchange that the model may cut

/// Why something is left in one piece.
struct Refusal {
  std::string reason;
};

/// Rows [begin, begin + count) of each rank's share, or of all.
struct Rows {
  std::int64_t begin = 0, count = 0;
};

std::vector<Rows> cut(std::int64_t rows, std::int64_t chunks, bool in_tiles) {
  std::int64_t each = (rows + chunks - 1) / chunks;
  if (in_tiles && rows >= chunks * kTile) each = (each + kTile - 1) / kTile * kTile;
  std::vector<Rows> all;
  for (std::int64_t at = 0; at < rows; at += each) all.push_back({at, std::min(each, rows - at)});
  return all;
}

Exprs dense_strides(const Exprs& sizes) {
  Exprs strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

/// A buffer, row by row from its first element to its last.
bool is_whole(const Program& p, const View& v) {
  const Expr elements = sym::product(p.buffers[v.buffer].sizes);
  return v.offset.is_constant(0) && v.dtype == p.buffers[v.buffer].dtype && v.strides == dense_strides(v.sizes) &&
         p.env->statically_known_equal(sym::product(v.sizes), elements);
}

/// Rows of a product's result and first operand: in their last dimension but one, and no other but theirs is above.
struct RowProduct {
  CallExtern call;
  std::int64_t rows = 0;

  const View& x() const { return call.inputs[0]; }
  const View& y() const { return call.outputs[0]; }
  Expr columns() const { return y().sizes.back(); }
};

std::variant<RowProduct, Refusal> rows_of(const Program& p, const Line& line) {
  const auto* call = std::get_if<CallExtern>(&line);
  if (!call || !library_ops::has(call->op, Trait::Product)) return Refusal{"no product of the library's makes it"};
  const View &x = call->inputs[0], &y = call->outputs[0];
  const std::size_t rank = y.sizes.size();
  if (rank < 2 || x.sizes.size() != rank || !is_whole(p, y))
    return Refusal{"the product's result is not all of its memory"};
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (!y.sizes[d].is_constant(1)) return Refusal{"the product is of several matrices"};
  const auto rows = y.sizes[rank - 2].constant();
  if (!rows) return Refusal{"the number of rows is known when the program runs"};
  const EpilogueCall epilogue(*call);
  if (!epilogue.nan().empty()) return Refusal{"the product looks for NaN in all of its operands"};
  for (const PostOp& op : epilogue.post())
    if (op.takes_operand() || op.kind == PostOp::Kind::Sum) return Refusal{"the product goes on with other operands"};
  if (epilogue.has_bias() && epilogue.bias().sizes.size() != 1) return Refusal{"the product adds a matrix"};
  return RowProduct{*call, *rows};
}

/// Rows as a matrix for each of `ranks` shares of as many rows, one behind another; a plain matrix for one.
View share_rows(const View& v, std::int64_t ranks, std::int64_t rows_of_share, Rows rows) {
  const Expr down = v.strides[v.strides.size() - 2], right = v.strides.back(), columns = v.sizes.back();
  const Expr offset = v.offset + down * rows.begin;
  if (ranks == 1) return {v.buffer, v.dtype, {rows.count, columns}, {down, right}, offset};
  return {v.buffer, v.dtype, {ranks, rows.count, columns}, {down * rows_of_share, down, right}, offset};
}

/// The same elements as rows of a matrix, where they lie row by row.
View flat_rows(const View& v, Rows rows, Expr columns) {
  return {v.buffer, v.dtype, {rows.count, columns}, {columns, 1}, v.offset + columns * rows.begin};
}

/// The call over these rows.
CallExtern product_over(const Program& p, const RowProduct& product, View x, View y) {
  CallExtern call = product.call;
  call.attributes.erase(std::string(library_ops::product::kAlgorithm.name));  // measured for all rows
  call.attributes.erase(std::string(library_ops::product::kAlgorithmFor.name));
  View& b = call.inputs[1];
  const bool is_matmul = !library_ops::linear::is_linear(call.op);
  if (is_matmul && b.sizes.size() > 2) {
    b.sizes.erase(b.sizes.begin(), b.sizes.end() - 2);
    b.strides.erase(b.strides.begin(), b.strides.end() - 2);
  }
  if (x.sizes.size() == 3 && (is_matmul || !p.device.is_host())) {
    // A library's rows lie in one distance; of several matrices each may lie anywhere.
    if (!is_matmul && !library_ops::LinearCall(call).weight_transposed()) {
      std::swap(b.sizes[0], b.sizes[1]);
      std::swap(b.strides[0], b.strides[1]);
    }
    b.sizes.insert(b.sizes.begin(), x.sizes[0]);
    b.strides.insert(b.strides.begin(), 0);
    call.op = library_ops::matmul::kName;
    for (std::string_view name :
         {library_ops::linear::kN.name, library_ops::linear::kK.name, library_ops::linear::kWeightTransposed.name})
      call.attributes.erase(std::string(name));
  }
  call.inputs[0] = std::move(x);
  call.outputs[0] = std::move(y);
  return call;
}

CallExtern exchange_over(const CallExtern& exchange, View x, View y) {
  CallExtern call = exchange;
  call.inputs = {std::move(x)};
  call.outputs = {std::move(y)};
  return call;
}

CallExtern wait_for(const CallExtern& wait, const CallExtern& exchange) {
  CallExtern call = wait;
  call.outputs = exchange.outputs;
  call.inputs = exchange.outputs;
  if (exchange.inputs[0].buffer != exchange.outputs[0].buffer) call.inputs.push_back(exchange.inputs[0]);
  return call;
}

/// Lines that take the places of others.
using Replacements = std::map<std::size_t, std::vector<Line>>;

/// A product whose result is exchanged at line `at`.
struct Reduction {
  CallExtern exchange;
  RowProduct product;
  std::size_t made = 0, at = 0, wait = 0;
  std::int64_t ranks = 1;  ///< that each get a share of the rows
  bool scatters = false;

  std::int64_t share() const { return product.rows / ranks; }
};

/// Products that take what is gathered at line `at`.
struct Gather {
  CallExtern exchange;
  std::vector<RowProduct> products;
  std::vector<std::size_t> places;  ///< their lines
  std::size_t at = 0, wait = 0;
  std::int64_t ranks = 1;

  std::int64_t share() const { return products[0].rows / ranks; }
  Expr columns() const { return products[0].x().sizes.back(); }
};

class Chunker {
 public:
  Chunker(Program& p, const target::Costs& costs, std::int64_t chunks) : p_(p), costs_(costs), chunks_(chunks) {}

  void run() {
    std::vector<CallExtern> all;
    for (const Line& l : p_.lines)
      if (const auto* call = std::get_if<CallExtern>(&l); call && may_be_cut(*call)) all.push_back(*call);
    for (const CallExtern& call : all) {
      const Found found = names::row_exchange(call.op) == RowExchange::Gathers ? cut_gather(call) : cut_reduction(call);
      ChunkNote note{.what = fmt::format("{} of {}", call.op, p_.buffers[call.inputs[0].buffer].name)};
      if (const auto* refusal = std::get_if<Refusal>(&found))
        note.reason = refusal->reason;
      else
        note.chunks = std::get<std::size_t>(found);
      p_.chunk_notes.push_back(std::move(note));
    }
  }

 private:
  using Found = std::variant<std::size_t, Refusal>;  ///< the number of chunks
  using Chunks = std::vector<Rows>;

  static bool may_be_cut(const CallExtern& call) {
    return call.inputs.size() == 1 && call.outputs.size() == 1 && names::row_exchange(call.op) != RowExchange::Other;
  }

  // ---- What is around an exchange ----

  bool touches(std::size_t line, BufferId b) const {
    const Uses u = uses(p_.lines[line]);
    return std::ranges::find(u.reads, b) != u.reads.end() || std::ranges::find(u.writes, b) != u.writes.end();
  }
  bool writes(std::size_t line, BufferId b) const {
    const Uses u = uses(p_.lines[line]);
    return std::ranges::find(u.writes, b) != u.writes.end();
  }
  std::vector<std::size_t> lines_with(BufferId b) const {
    std::vector<std::size_t> found;
    for (std::size_t k = 0; k < p_.lines.size(); ++k)
      if (touches(k, b)) found.push_back(k);
    return found;
  }

  std::size_t line_of(const CallExtern& exchange) const {
    const auto found = std::ranges::find_if(p_.lines, [&](const Line& l) {
      const auto* call = std::get_if<CallExtern>(&l);
      return call && call->op == exchange.op && call->inputs == exchange.inputs && call->outputs == exchange.outputs;
    });
    return static_cast<std::size_t>(found - p_.lines.begin());
  }

  std::optional<std::size_t> wait_of(std::size_t exchange) const {
    const View& y = std::get<CallExtern>(p_.lines[exchange]).outputs[0];
    for (std::size_t k = exchange + 1; k < p_.lines.size(); ++k) {
      if (std::holds_alternative<Control>(p_.lines[k])) return std::nullopt;
      if (!touches(k, y.buffer)) continue;
      const auto* call = std::get_if<CallExtern>(&p_.lines[k]);
      return call && library_ops::has(call->op, Trait::Wait) ? std::optional(k) : std::nullopt;
    }
    return std::nullopt;
  }

  /// Whether a call's operands, but for its first, have the same values at both of two places, its result is touched
  /// nowhere between them, and both are in one block.
  bool may_move(const CallExtern& call, std::size_t from, std::size_t to) const {
    for (std::size_t k = std::min(from, to) + 1; k < std::max(from, to); ++k) {
      if (std::holds_alternative<Control>(p_.lines[k]) || touches(k, call.outputs[0].buffer)) return false;
      for (const View& v : call.inputs)
        if (writes(k, v.buffer) && !(to < from && v.buffer == call.inputs[0].buffer)) return false;
    }
    return true;
  }

  bool is_temporary(BufferId b) const {
    const bool leaves = std::ranges::any_of(p_.outputs, [&](const Output& o) {
      const auto* v = std::get_if<View>(&o.value);
      return v && v->buffer == b;
    });
    return p_.buffers[b].kind == BufferKind::Temporary && !leaves && !p_.buffers[b].comm;
  }

  // ---- How many ----

  /// The rows of the chunks, by what a chunk of some rows takes in its two stages.
  std::variant<Chunks, Refusal> fitting(std::int64_t rows, std::int64_t bytes,
                                        const std::function<ChunkTime(Rows)>& time) const {
    if (rows < 2) return Refusal{"there are no rows to cut"};
    if (chunks_ != kChunksByModel) return cut(rows, std::min(chunks_, rows), in_tiles());
    if (bytes < kLeastBytes) return Refusal{"it is too small"};
    const auto times = [&](std::size_t count) {
      std::vector<ChunkTime> all;
      for (Rows part : cut(rows, static_cast<std::int64_t>(count), in_tiles())) all.push_back(time(part));
      return all;
    };
    const std::size_t count = scheduler::choose_chunks(times, kMost);
    if (count < 2) return Refusal{"by the model no chunks gain"};
    return cut(rows, static_cast<std::int64_t>(count), in_tiles());
  }
  bool in_tiles() const { return !p_.device.is_host(); }
  double product_seconds(const CallExtern& call) const { return seconds_of_product(p_, call, costs_); }
  double exchange_seconds(const CallExtern& call) const { return exchange_cost(p_, call, costs_).seconds; }
  std::int64_t bytes_of(const View& v) const {
    return p_.env->hint_or(span_bytes(*p_.env, v.dtype, v.sizes, v.strides), 0);
  }

  // ---- What products make ----

  std::variant<Reduction, Refusal> find_reduction(const CallExtern& exchange) const {
    Reduction found{.exchange = exchange, .at = line_of(exchange)};
    const View &x = exchange.inputs[0], &y = exchange.outputs[0];
    const auto wait = wait_of(found.at);
    const std::vector<std::size_t> users = lines_with(x.buffer);
    if (!wait || !is_whole(p_, x) || !is_whole(p_, y)) return Refusal{"what is exchanged is not all of its memory"};
    const auto after = std::ranges::find(users, found.at);
    if (after == users.begin()) return Refusal{"it is an input"};
    found.made = *std::prev(after), found.wait = *wait;
    const auto product = rows_of(p_, p_.lines[found.made]);
    if (const auto* refusal = std::get_if<Refusal>(&product)) return *refusal;
    found.product = std::get<RowProduct>(product);
    if (found.product.y().buffer != x.buffer || !may_move(found.product.call, found.made, found.at))
      return Refusal{"the product cannot move to the exchange"};
    found.scatters = names::row_exchange(exchange.op) == RowExchange::Scatters;
    if (!found.scatters) return found;
    found.ranks = read(exchange.attributes, names::kRanks);
    if (found.ranks < 1 || found.product.rows % found.ranks != 0)
      return Refusal{"the rows are not those of a known number of ranks"};
    if (users.size() > 3 || !is_temporary(x.buffer)) return Refusal{"the product has other readers"};
    return found;
  }

  /// The product over some rows of each rank's share, and their exchange, which for a reduce-scatter lie in `own`.
  std::pair<CallExtern, CallExtern> chunk_of(const Reduction& r, Rows rows, BufferId own) const {
    const RowProduct& product = r.product;
    View to = share_rows(product.y(), r.ranks, r.share(), rows), sent = flat_rows(product.y(), rows, product.columns());
    if (r.scatters) {
      to.buffer = own;
      to.offset = 0;
      to.strides = dense_strides(to.sizes);
      sent = {own, to.dtype, {r.ranks * rows.count, product.columns()}, {product.columns(), 1}, 0};
    }
    View result = flat_rows(r.exchange.outputs[0], rows, product.columns());
    return {product_over(p_, product, share_rows(product.x(), r.ranks, r.share(), rows), std::move(to)),
            exchange_over(r.exchange, std::move(sent), std::move(result))};
  }

  Found cut_reduction(const CallExtern& exchange) {
    const auto found = find_reduction(exchange);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& r = std::get<Reduction>(found);
    const View& x = exchange.inputs[0];
    const auto time = [&](Rows rows) {
      const auto [multiplied, exchanged] = chunk_of(r, rows, x.buffer);
      return ChunkTime{product_seconds(multiplied), exchange_seconds(exchanged)};
    };
    const auto chunks = fitting(r.share(), bytes_of(x), time);
    if (const auto* refusal = std::get_if<Refusal>(&chunks)) return *refusal;
    const Saved before = save();
    Replacements lines{{r.made, {}}, {r.at, {}}, {r.wait, {}}};
    for (Rows rows : std::get<Chunks>(chunks)) {
      const BufferId own =
          r.scatters ? add_part(before, x.buffer, r.ranks * rows.count, r.product.columns()) : x.buffer;
      auto [multiplied, exchanged] = chunk_of(r, rows, own);
      lines[r.wait].push_back(wait_for(std::get<CallExtern>(before.lines[r.wait]), exchanged));
      lines[r.at].push_back(std::move(multiplied));
      lines[r.at].push_back(std::move(exchanged));
    }
    return replace(before, std::move(lines), std::get<Chunks>(chunks).size());
  }

  // ---- What products take ----

  std::variant<Gather, Refusal> find_gather(const CallExtern& exchange) const {
    Gather found{.exchange = exchange, .at = line_of(exchange)};
    const View &x = exchange.inputs[0], &gathered = exchange.outputs[0];
    const auto wait = wait_of(found.at);
    if (!wait || !is_whole(p_, gathered) || !is_temporary(gathered.buffer) || x.strides != dense_strides(x.sizes))
      return Refusal{"what is exchanged is not all of its memory"};
    found.wait = *wait;
    for (std::size_t k : lines_with(gathered.buffer)) {
      if (k == found.at || k == found.wait) continue;
      const auto product = reader(k, gathered.buffer);
      if (const auto* refusal = std::get_if<Refusal>(&product)) return *refusal;
      found.products.push_back(std::get<RowProduct>(product));
      found.places.push_back(k);
      if (!may_move(found.products.back().call, k, found.wait)) return Refusal{"a product cannot move to the wait"};
      if (found.products.back().rows != found.products[0].rows) return Refusal{"products read it as other rows"};
    }
    if (found.products.empty()) return Refusal{"no product reads it"};
    found.ranks = read(exchange.attributes, names::kRanks);
    if (found.ranks < 1 || found.products[0].rows % found.ranks != 0)
      return Refusal{"the rows are not those of a known number of ranks"};
    return found;
  }

  /// The product at a line whose rows are all of the buffer.
  std::variant<RowProduct, Refusal> reader(std::size_t line, BufferId b) const {
    const auto found = rows_of(p_, p_.lines[line]);
    const auto* product = std::get_if<RowProduct>(&found);
    const bool reads_rows = product && product->x().buffer == b && is_whole(p_, product->x()) &&
                            std::ranges::count(product->call.inputs, b, &View::buffer) == 1;
    if (!reads_rows) return Refusal{"something else than the rows of products reads it"};
    return *product;
  }

  CallExtern gather_of(const Gather& g, Rows rows, BufferId own) const {
    View to{own, g.exchange.inputs[0].dtype, {g.ranks * rows.count, g.columns()}, {g.columns(), 1}, 0};
    return exchange_over(g.exchange, flat_rows(g.exchange.inputs[0], rows, g.columns()), std::move(to));
  }
  CallExtern product_of(const Gather& g, const RowProduct& product, Rows rows, BufferId own) const {
    const View all{own, product.x().dtype, {g.ranks * rows.count, g.columns()}, {g.columns(), 1}, 0};
    return product_over(p_, product, share_rows(all, g.ranks, rows.count, {0, rows.count}),
                        share_rows(product.y(), g.ranks, g.share(), rows));
  }

  Found cut_gather(const CallExtern& exchange) {
    const auto found = find_gather(exchange);
    if (const auto* refusal = std::get_if<Refusal>(&found)) return *refusal;
    const auto& g = std::get<Gather>(found);
    const View& gathered = exchange.outputs[0];
    const auto time = [&](Rows rows) {
      double seconds = 0;
      for (const RowProduct& product : g.products)
        seconds += product_seconds(product_of(g, product, rows, gathered.buffer));
      return ChunkTime{exchange_seconds(gather_of(g, rows, gathered.buffer)), seconds};
    };
    const auto chunks = fitting(g.share(), bytes_of(gathered), time);
    if (const auto* refusal = std::get_if<Refusal>(&chunks)) return *refusal;
    const Saved before = save();
    Replacements lines{{g.at, {}}, {g.wait, {}}};
    for (std::size_t k : g.places) lines[k] = {};
    for (Rows rows : std::get<Chunks>(chunks)) {
      const BufferId own = add_part(before, gathered.buffer, g.ranks * rows.count, g.columns());
      CallExtern started = gather_of(g, rows, own);
      lines[g.wait].push_back(wait_for(std::get<CallExtern>(before.lines[g.wait]), started));
      lines[g.at].push_back(std::move(started));
      for (const RowProduct& product : g.products) lines[g.wait].push_back(product_of(g, product, rows, own));
    }
    return replace(before, std::move(lines), std::get<Chunks>(chunks).size());
  }

  // ---- The program ----

  /// What is put back where chunks are not wanted after all.
  struct Saved {
    std::vector<Line> lines;
    std::vector<Buffer> buffers;
  };
  Saved save() const { return {p_.lines, p_.buffers}; }

  /// A buffer for rows that were to lie in another one.
  BufferId add_part(const Saved& before, BufferId of, std::int64_t rows, Expr columns) {
    Buffer part = p_.buffers[of];
    part.sizes = {rows, columns};
    part.strides = {columns, 1};
    part.bytes = span_bytes(*p_.env, part.dtype, part.sizes, part.strides);
    const auto is_taken = [&](const std::string& name) {
      return std::ranges::find(p_.buffers, name, &Buffer::name) != p_.buffers.end();
    };
    std::size_t number = p_.buffers.size() - before.buffers.size();
    do part.name = fmt::format("{}_{}", p_.buffers[of].name, number++);
    while (is_taken(part.name));
    p_.buffers.push_back(std::move(part));
    return p_.buffers.size() - 1;
  }

  /// Puts the lines in, unless that needs more memory.
  Found replace(const Saved& before, Replacements lines, std::size_t chunks) {
    if (!peak_) peak_ = peak_of(before.lines);
    std::vector<Line> now;
    for (std::size_t k = 0; k < before.lines.size(); ++k) {
      const auto found = lines.find(k);
      if (found == lines.end())
        now.push_back(before.lines[k]);
      else
        now.insert(now.end(), std::make_move_iterator(found->second.begin()),
                   std::make_move_iterator(found->second.end()));
    }
    const std::uint64_t peak = peak_of(std::move(now));
    if (peak <= *peak_) {
      peak_ = peak;
      return chunks;
    }
    p_.lines = before.lines;
    p_.buffers = before.buffers;
    return Refusal{"chunks would need more memory"};
  }

  std::uint64_t peak_of(std::vector<Line> lines) {
    p_.lines = std::move(lines);
    const LineSteps steps = steps_of(p_);
    return packed_bytes(steps.program, scheduler::written_order(steps.program));
  }

  std::optional<std::uint64_t> peak_;  ///< packed, of the lines as they are
  Program& p_;
  const target::Costs& costs_;
  const std::int64_t chunks_;
};

}  // namespace

void chunk_collectives(Program& p, const target::Costs& costs, std::int64_t chunks) { Chunker(p, costs, chunks).run(); }

}  // namespace coil::wrapper
