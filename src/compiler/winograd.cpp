#include "compiler/winograd.h"

#include <array>
#include <cmath>
#include <unordered_map>

#include "compiler/pack_weights.h"
#include "ir/tensor_box.h"
#include "runtime/threads.h"

namespace coil {
namespace {

using ir::Expr;
using ir::Exprs;
using ir::Scalar;
using ir::ScalarOp;

constexpr std::int64_t kWindow = 3, kTile = 2, kSquare = kTile + kWindow - 1, kTerms = kSquare * kSquare;
constexpr std::size_t kWeight = 1, kBias = 2;

// Of m tiles and channels C and O the products save 40*C*O*m operations of a direct convolution's 72*C*O*m, and the transforms move about 128*m*(C+O) bytes more. Zen 3, 2 threads: 200 GFLOP/s and 50 GB/s within the
// caches, so that both sides are equal at C*O/(C+O) = 13.
constexpr double kLeastChannels = 16;    ///< C*O/(C+O)
constexpr std::int64_t kLeastTiles = 8;  ///< transformed weights are 16/9 as large, and few tiles do not pay for reading them
constexpr std::int64_t kMostBytes = std::int64_t{1} << 26;  ///< of both transforms

bool all_are(const ir::Extern& call, const char* name, std::int64_t value) {
  auto found = call.attributes.find(name);
  if (found == call.attributes.end()) return true;
  for (std::int64_t v : std::get<std::vector<std::int64_t>>(found->second))
    if (v != value) return false;
  return true;
}

bool all_finite(const Tensor& t) {
  const Tensor dense = t.contiguous();
  const std::span<const float> values(dense.data<float>(), static_cast<std::size_t>(dense.numel()));
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

/// Rows and columns of results two by two, the last perhaps alone.
struct Tiles {
  Expr images, down, across;

  explicit Tiles(const ir::BufferView& y) : images(y.sizes[0]), down(sym::ceil_div(y.sizes[2], kTile)), across(sym::ceil_div(y.sizes[3], kTile)) {}
  Expr count() const { return images * down * across; }
};

bool gains(ir::Graph& graph, const ir::Extern& call) {
  const ir::BufferView &x = call.inputs[0], &w = call.inputs[kWeight], &y = call.outputs[0];
  if (x.dtype != DType::F32 || w.dtype != DType::F32 || y.dtype != DType::F32 || x.sizes.size() != 4 || call.integer("groups") != 1 || call.integer("transposed")) return false;
  if (!w.sizes[2].is_constant(kWindow) || !w.sizes[3].is_constant(kWindow) || !all_are(call, "stride", 1) || !all_are(call, "dilation", 1)) return false;
  const auto value = constant_operand(graph, w);
  if (!value) return false;
  const auto results = static_cast<double>(value->sizes[0]), channels = static_cast<double>(value->sizes[1]);
  // Any choice is right for all sizes: the hint needs no guard.
  const std::int64_t tiles = graph.env().hint_or(Tiles(y).count(), 64);
  if (results * channels < kLeastChannels * (results + channels) || tiles < kLeastTiles) return false;
  if (static_cast<double>(tiles * kTerms) * (results + channels) * sizeof(float) > static_cast<double>(kMostBytes)) return false;
  return all_finite(*value);
}

/// U[4 * i + j, c, o] = (G g Gt)[i, j] for the window g of channels c and o. Rows lie an odd number of cache lines apart: those a multiple of a page apart share few sets of the cache.
Tensor transformed(const Tensor& weight) {
  const Tensor dense = weight.contiguous();
  const std::int64_t results = dense.sizes[0], channels = dense.sizes[1];
  constexpr std::int64_t line = 64 / sizeof(float);
  const std::int64_t step = ((results + line - 1) / line | 1) * line;
  Tensor made{Storage::allocate(static_cast<std::size_t>(kTerms * channels * step) * sizeof(float)), DType::F32, {kTerms, channels, results}, {channels * step, step, 1}, 0};
  const auto row = [](const auto& g) { return std::array<float, 4>{g[0], 0.5F * (g[0] + g[1] + g[2]), 0.5F * (g[0] - g[1] + g[2]), g[2]}; };
  runtime::parallel_ranges(channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t o = 0; o < results; ++o) {
        const float* g = dense.data<float>() + (o * channels + c) * kWindow * kWindow;
        std::array<std::array<float, 3>, 4> half;  // G g
        for (std::size_t j = 0; j < 3; ++j) {
          const auto column = row(std::array<float, 3>{g[j], g[3 + j], g[6 + j]});
          for (std::size_t i = 0; i < 4; ++i) half[i][j] = column[i];
        }
        for (std::size_t i = 0; i < 4; ++i) {
          const auto u = row(half[i]);
          for (std::size_t j = 0; j < 4; ++j) made.data<float>()[(static_cast<std::int64_t>(4 * i + j) * channels + c) * step + o] = u[j];
        }
      }
  });
  return made;
}

class Expansion {
 public:
  explicit Expansion(ir::Graph& graph) : graph_(graph), list_(graph.operations().begin(), graph.operations().end()), blocks_(ir::blocks(graph)) {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      for (ir::BufferId b : ir::reads(list_[i])) readers_[b].push_back(i);
      for (ir::BufferId b : list_[i].outs) ++writers_[b];
    }
    for (const ir::GraphOutput& out : graph.outputs)
      if (auto* view = std::get_if<ir::BufferView>(&out.value)) returned_.insert(view->buffer);
  }

  void run() {
    bool any = false;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      ir::Operation& op = list_[i];
      if (auto* call = std::get_if<ir::Extern>(&op.node); call && call->attributes.erase("algorithm")) {
        any = true;
        if (takes_apart(*call)) {
          expand(i, *call);
          continue;
        }
      }
      if (auto found = results_.find(i); found != results_.end()) write_results(op, found->second);
      else made_.push_back(std::move(op));
    }
    if (any) graph_.replace_operations(std::move(made_));
  }

 private:
  /// A convolution's products, still to be transformed.
  struct Products {
    ir::BufferId buffer;  ///< M[term, image, down, across, channel]
    std::optional<ir::BufferView> bias;
    ir::BufferId y;       ///< that loads of the body stand for
  };

  /// How dimension `d` of four stands in loops over [image, down, across, channel].
  static constexpr std::size_t kLoop[] = {0, 3, 1, 2};

  bool takes_apart(const ir::Extern& call) const {
    auto nan = call.attributes.find("nan");
    if (nan != call.attributes.end() && std::get<std::string>(nan->second) == "keep") return false;
    const ir::BufferView& y = call.outputs[0];
    const ir::Layout& layout = graph_.buffer(y.buffer).layout;
    return y.sizes == layout.sizes && y.strides == layout.strides && y.offset.is_constant(0) && y.strides[1].is_constant(1);
  }

  std::int64_t padding(const ir::Extern& call, std::size_t d) const { return std::get<std::vector<std::int64_t>>(call.attributes.at("padding"))[d]; }

  ir::Operation loop(const ir::Operation& like, Exprs sizes, Scalar body, ir::BufferId out, Exprs store_index) const {
    return {.node = ir::Pointwise{std::move(sizes), body}, .outs = {out}, .store_index = std::move(store_index), .origins = like.origins, .where = like.where};
  }

  ir::BufferId temporary(const ir::BufferView& like, Exprs sizes) {
    const Device device = graph_.buffer(like.buffer).layout.device;
    Exprs strides = sym::contiguous_strides(sizes);
    return graph_.add_buffer("", ir::BufferKind::Computed, {DType::F32, device, std::move(sizes), std::move(strides), true}).id;
  }

  void expand(std::size_t at, const ir::Extern& call) {
    const ir::Operation& op = list_[at];
    const ir::BufferView y = call.outputs[0];
    const Tiles tiles(y);
    const Expr channels = call.inputs[kWeight].sizes[1], results = call.inputs[kWeight].sizes[0];
    const ir::BufferId v = transform_input(op, call, tiles, channels);
    const ir::BufferId m = temporary(y, {kTerms, tiles.images, tiles.down, tiles.across, results});
    auto matrices = [&](ir::BufferId b, Expr columns) { return ir::BufferView{b, DType::F32, {kTerms, tiles.count(), columns}, {tiles.count() * columns, columns, 1}, 0}; };
    ir::Extern products{"matmul", {{"has_bias", std::int64_t{0}}}, {matrices(v, channels), weights(call.inputs[kWeight])}, {matrices(m, results)}};
    if (call.attributes.contains("nan")) {
      products.op = "winograd_products";
      products.attributes = {{"padding", call.attributes.at("padding")}, {"padding_end", call.attributes.at("padding_end")}};
      products.inputs.push_back(call.inputs[0]);
      products.inputs.push_back(call.inputs.back());
    }
    ir::Operation multiplied{.node = std::move(products), .outs = {m}, .origins = op.origins, .where = op.where};
    made_.push_back(std::move(multiplied));
    Products made{m, {}, y.buffer};
    if (call.integer("has_bias")) made.bias = call.inputs[kBias];
    if (const auto reader = sole_reader(at, y)) {
      results_.emplace(*reader, made);
      return;
    }
    ir::Operation whole = loop(op, y.sizes, graph_.pool().load(y.buffer, DType::F32, graph_.ivars(y.sizes.size())), y.buffer, {});
    write_results(whole, made);
  }

  /// The loop over all of y that alone reads it, element by element: it may compute what it reads.
  std::optional<std::size_t> sole_reader(std::size_t at, const ir::BufferView& y) {
    const auto& readers = readers_[y.buffer];
    if (readers.size() != 1 || writers_[y.buffer] != 1 || blocks_[readers[0]] != blocks_[at] || returned_.contains(y.buffer) || graph_.buffer(y.buffer).is_output || results_.contains(readers[0])) return std::nullopt;
    const ir::Operation& op = list_[readers[0]];
    const auto* reader = std::get_if<ir::Pointwise>(&op.node);
    if (!reader || !op.store_index.empty() || reader->sizes != y.sizes) return std::nullopt;
    for (Scalar load : ir::loads(reader->body))
      if (load->buffer == y.buffer && (load->op != ScalarOp::Load || load->mask || !load->args.empty() || load->index != graph_.ivars(y.sizes.size()))) return std::nullopt;
    return readers[0];
  }

  ir::BufferId transform_input(const ir::Operation& op, const ir::Extern& call, const Tiles& tiles, Expr channels) {
    const ir::BufferView& x = call.inputs[0];
    const Exprs sizes{tiles.images, tiles.down, tiles.across, channels};
    const auto loops = ir::loop_vars(graph_, sizes);
    std::array<std::array<Scalar, 4>, 4> d;
    for (std::int64_t i = 0; i < kSquare; ++i)
      for (std::int64_t j = 0; j < kSquare; ++j) {
        const Exprs index{graph_.ivar(kLoop[0]), graph_.ivar(kLoop[1]), graph_.ivar(kLoop[2]) * kTile + (i - padding(call, 0)), graph_.ivar(kLoop[3]) * kTile + (j - padding(call, 1))};
        d[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = element(x, index, loops);
      }
    const ir::BufferId v = temporary(x, {kTerms, tiles.images, tiles.down, tiles.across, channels});
    auto transform = [&](const std::array<Scalar, 4>& a) { return std::array<Scalar, 4>{minus(a[0], a[2]), plus(a[1], a[2]), minus(a[2], a[1]), minus(a[1], a[3])}; };
    std::array<std::array<Scalar, 4>, 4> half;  // Bt d
    for (std::size_t j = 0; j < 4; ++j) {
      const auto column = transform({d[0][j], d[1][j], d[2][j], d[3][j]});
      for (std::size_t i = 0; i < 4; ++i) half[i][j] = column[i];
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const auto row = transform(half[i]);
      for (std::size_t j = 0; j < 4; ++j) made_.push_back(loop(op, sizes, row[j], v, stored_at(4 * i + j)));
    }
    return v;
  }

  /// x at an index, 0 outside of it.
  Scalar element(const ir::BufferView& x, const Exprs& index, const std::vector<sym::LoopVar>& loops) {
    auto& pool = graph_.pool();
    Scalar inside = nullptr;
    auto require = [&](Expr condition) {
      condition = graph_.env().simplify(condition, loops);
      if (condition.is_constant(1)) return;
      Scalar c = pool.condition(condition);
      inside = inside ? pool.op(ScalarOp::And, inside, c) : c;
    };
    Expr at = x.offset;
    for (std::size_t k = 0; k < index.size(); ++k) {
      if (k >= 2) {
        require(sym::le(0, index[k]));
        require(sym::lt(index[k], x.sizes[k]));
      }
      at += index[k] * x.strides[k];
    }
    return pool.linear_load(x.buffer, x.dtype, at, {}, inside);
  }

  /// The loop that reads y, in four: one for each place in a tile.
  void write_results(const ir::Operation& op, const Products& products) {
    const auto& whole = std::get<ir::Pointwise>(op.node);
    auto& pool = graph_.pool();
    const Exprs vars = graph_.ivars(4);
    for (std::int64_t a = 0; a < kTile; ++a)
      for (std::int64_t b = 0; b < kTile; ++b) {
        // The tiles that have this place.
        const Exprs sizes{whole.sizes[0], whole.sizes[1], sym::ceil_div(whole.sizes[2] - a, kTile), sym::ceil_div(whole.sizes[3] - b, kTile)};
        const Exprs index{vars[0], vars[1], vars[2] * kTile + a, vars[3] * kTile + b};
        const auto loops = ir::loop_vars(graph_, sizes);
        Scalar value = result(products, a, b);
        if (products.bias) value = plus(value, pool.linear_load(products.bias->buffer, DType::F32, products.bias->offset + vars[1] * products.bias->strides[0]));
        Scalar body = pool.substitute(whole.body, vars, index, [&](Expr e) { return graph_.env().simplify(e, loops); });
        body = pool.replace_loads(body, [&](Scalar load) { return load->buffer == products.y ? value : nullptr; });
        made_.push_back(loop(op, sizes, body, op.outs[0], index));
      }
  }

  /// (At M A)[a, b] over loops [image, channel, down, across]
  Scalar result(const Products& products, std::int64_t a, std::int64_t b) {
    auto m = [&](std::int64_t i, std::int64_t j) { return graph_.pool().load(products.buffer, DType::F32, {4 * i + j, graph_.ivar(0), graph_.ivar(2), graph_.ivar(3), graph_.ivar(1)}); };
    auto combine = [&](std::int64_t place, auto term) { return place == 0 ? plus(plus(term(0), term(1)), term(2)) : minus(minus(term(1), term(2)), term(3)); };
    return combine(b, [&](std::int64_t j) { return combine(a, [&](std::int64_t i) { return m(i, j); }); });
  }

  Exprs stored_at(std::size_t term) {
    Exprs at = graph_.ivars(4);
    at.insert(at.begin(), static_cast<std::int64_t>(term));
    return at;
  }

  ir::BufferView weights(const ir::BufferView& w) {
    ir::BufferView view{0, DType::F32, {kTerms, w.sizes[1], w.sizes[0]}, {}, 0};
    auto [it, added] = weights_.try_emplace({w.buffer, w.offset.constant().value_or(0)}, 0);
    if (added) {
      Tensor value = transformed(*constant_operand(graph_, w));
      ir::Layout layout{DType::F32, graph_.buffer(w.buffer).layout.device, view.sizes, {}, true};
      layout.strides.assign(value.strides.begin(), value.strides.end());
      const std::string name = graph_.buffer(w.buffer).name + ".winograd";
      it->second = graph_.add_buffer(name, ir::BufferKind::Constant, layout).id;
      graph_.constants.emplace(it->second, std::move(value));
    }
    view.buffer = it->second;
    view.strides = graph_.buffer(view.buffer).layout.strides;
    return view;
  }

  Scalar plus(Scalar a, Scalar b) { return graph_.pool().op(ScalarOp::Add, a, b); }
  Scalar minus(Scalar a, Scalar b) { return graph_.pool().op(ScalarOp::Sub, a, b); }

  ir::Graph& graph_;
  std::vector<ir::Operation> list_;
  const std::vector<std::size_t> blocks_;
  std::unordered_map<ir::BufferId, std::vector<std::size_t>> readers_;
  std::unordered_map<ir::BufferId, std::size_t> writers_;
  std::set<ir::BufferId> returned_;
  std::unordered_map<std::size_t, Products> results_;  ///< by the operation that reads them
  std::map<std::pair<ir::BufferId, std::int64_t>, ir::BufferId> weights_;  ///< transformed, by buffer and offset: one of several calls stays one
  std::vector<ir::Operation> made_;
};

}  // namespace

void choose_winograd(ir::Graph& graph) {
  for (ir::Operation& op : graph.operations())
    if (auto* call = std::get_if<ir::Extern>(&op.node); call && call->op == "convolution" && gains(graph, *call)) call->attributes["algorithm"] = "winograd";
}

void expand_winograd(ir::Graph& graph) { Expansion(graph).run(); }

}  // namespace coil
