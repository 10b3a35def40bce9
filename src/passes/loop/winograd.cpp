#include "passes/loop/winograd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "ir/tensor_box.h"
#include "library_ops/convolutions.h"
#include "library_ops/table.h"
#include "library_ops/winograd_transforms.h"
#include "passes/loop/pack_weights.h"
#include "runtime/ops/winograd_weight.h"

namespace coil {
namespace {

using ir::Expr;
using ir::Exprs;
using ir::Scalar;
using ir::ScalarOp;

using library_ops::ConvolutionCall;
using winograd::kWindow;
using winograd::Transforms;

/// What a convolution costs, in seconds: its multiplications, its weights, which a net reads from memory each time, and
/// what is transformed, which is written and read within the caches.
double seconds_of(const target::Costs& costs, double multiplications, double weights, double transformed,
                  double calls) {
  return 2 * multiplications / costs.operations_per_second + weights * sizeof(float) / costs.memory_bytes_per_second +
         2 * transformed * sizeof(float) / costs.cache_bytes_per_second + calls * costs.seconds_of_call;
}

bool all_are(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::ranges::all_of(values, [&](std::int64_t v) { return v == value; });
}

bool all_finite(const Tensor& t) {
  const Tensor dense = t.contiguous();
  const std::span<const float> values(dense.data<float>(), static_cast<std::size_t>(dense.numel()));
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

/// Squares of results, the last ones perhaps not full.
struct Tiles {
  Expr images, down, across;

  Tiles(const ir::BufferView& y, std::int64_t tile)
      : images(y.sizes[0]), down(sym::ceil_div(y.sizes[2], tile)), across(sym::ceil_div(y.sizes[3], tile)) {}
  Expr count() const { return images * down * across; }
};

struct Choice {
  std::int64_t tile = 0;
  bool slices = false;
};

/// The tile that the call takes least time with; nothing where it stays whole. `wanted`: this one or none. Where the
/// transforms have `slices_from` bytes the call may take them in slices, each of which reads the whole weight: it does
/// where there are more terms of tiles than of the weight. A weight that is an argument is transformed in each call,
/// which only slices do, of whatever size.
std::optional<Choice> best_choice(ir::Graph& graph, const ir::Extern& call, std::optional<std::int64_t> wanted,
                                  std::optional<double> slices_from) {
  const ConvolutionCall convolution(call);
  const ir::BufferView &x = convolution.x(), &w = convolution.weight(), &y = convolution.result();
  if (x.dtype != DType::F32 || w.dtype != DType::F32 || y.dtype != DType::F32 || x.sizes.size() != 4 ||
      convolution.groups() != 1 || convolution.transposed())
    return std::nullopt;
  if (!w.sizes[2].is_constant(kWindow) || !w.sizes[3].is_constant(kWindow) || !all_are(convolution.stride(2), 1) ||
      !all_are(convolution.dilation(2), 1))
    return std::nullopt;
  const auto value = constant_operand(graph, w);
  const auto results = w.sizes[0].constant(), channels = w.sizes[1].constant();
  if (!results || !channels || (!value && !slices_from)) return std::nullopt;
  const auto pairs = static_cast<double>(*results * *channels), both = static_cast<double>(*results + *channels);
  // Any choice is right for all sizes: the hint needs no guard.
  const auto pixels = static_cast<double>(graph.env().hint_or(y.sizes[0] * y.sizes[2] * y.sizes[3], 256));
  constexpr double kDirect = kWindow * kWindow;
  const target::Costs& costs = graph.target().costs;
  const double sliced_from = value ? slices_from.value_or(0) : 0;
  double least = wanted ? std::numeric_limits<double>::infinity()
                        : seconds_of(costs, kDirect * pixels * pairs, kDirect * pairs, 0, 1);
  std::optional<Choice> best;
  for (const Transforms& t : winograd::all_transforms()) {
    if (wanted && *wanted != t.tile) continue;
    const auto tiles = static_cast<double>(graph.env().hint_or(Tiles(y, t.tile).count(), 64));
    const auto terms = static_cast<double>(t.terms()), transformed = terms * tiles,
               bytes = transformed * both * sizeof(float);
    const bool sliced = slices_from && bytes >= sliced_from && tiles * both > 2 * pairs;
    // Where a last tile is not whole, each place in it is a loop of its own: with 16 places that tripled what
    // ResNet-50's free sizes take to compile, for 3 % of its speed.
    const auto whole = [&](Expr size) { return graph.env().statically_known_multiple_of(size, t.tile); };
    if (!wanted && !sliced && t.tile > 2 && !(whole(y.sizes[2]) && whole(y.sizes[3]))) continue;
    if (!sliced && (!value || bytes > kMostTransformBytes)) continue;
    constexpr double kOperationsOfTransform = 800;  // that would be made in the time that a window's transform takes
    const double transforms = value ? 0 : kOperationsOfTransform * pairs / costs.operations_per_second;
    const double seconds =
        transforms + seconds_of(costs, transformed * pairs, terms * pairs, transformed * both, sliced ? 1 : 3);
    if (seconds < least) least = seconds, best = Choice{t.tile, sliced};
  }
  return best && (!value || all_finite(*value)) ? best : std::nullopt;
}

/// Products of fractions and scalars, summed. Sums that two rows of a transform have in common up to their sign are
/// made alike, so that they are one.
class LinearSums {
 public:
  explicit LinearSums(ir::ScalarPool& pool) : pool_(pool) {}

  /// matrix * x, for Bt: of the rows for p and -p one half is the same, the other has its sign turned.
  std::vector<Scalar> of_input(const winograd::Matrix& matrix, const std::vector<Scalar>& x) {
    std::vector<Scalar> out;
    for (const auto& row : matrix) {
      Signed halves[2];
      for (std::size_t i = 0; i < row.size(); ++i) add(halves[i % 2], row[i], x[i], row[i]);
      out.push_back(joined(halves[0], halves[1]));
    }
    return out;
  }

  /// matrix * x, for At: p and -p have numbers of one magnitude, so that their terms are added or subtracted first.
  std::vector<Scalar> of_products(const winograd::Matrix& matrix, const std::vector<Scalar>& x) {
    std::vector<Scalar> out;
    for (const auto& row : matrix) {
      Signed sum;
      add(sum, row.front(), x.front(), 1);
      for (std::size_t i = 1; i + 1 < row.size(); i += 2)
        add(sum, row[i], pool_.op(row[i] == row[i + 1] ? ScalarOp::Add : ScalarOp::Sub, x[i], x[i + 1]), 1);
      add(sum, row.back(), x.back(), 1);
      out.push_back(sum.value);
    }
    return out;
  }

 private:
  /// The sum itself, or its negative.
  struct Signed {
    Scalar value = nullptr;
    bool negative = false;
  };

  /// The first number that is not 0 decides by the sign of `like` whether the sum is kept as its negative.
  void add(Signed& sum, winograd::Rational number, Scalar x, winograd::Rational like) {
    if (number.numerator == 0) return;
    if (!sum.value) sum.negative = like.numerator < 0;
    if (sum.negative) number = winograd::Rational{} - number;
    const double magnitude = std::fabs(number.value());
    const Scalar term = magnitude == 1 ? x : pool_.op(ScalarOp::Mul, x, pool_.constant(DType::F32, magnitude));
    if (!sum.value)
      sum.value = number.numerator < 0 ? pool_.op(ScalarOp::Neg, term) : term;
    else
      sum.value = pool_.op(number.numerator < 0 ? ScalarOp::Sub : ScalarOp::Add, sum.value, term);
  }

  Scalar joined(const Signed& a, const Signed& b) {
    if (!a.value || !b.value) {
      const Signed& one = a.value ? a : b;
      return one.negative ? pool_.op(ScalarOp::Neg, one.value) : one.value;
    }
    if (a.negative && !b.negative) return pool_.op(ScalarOp::Sub, b.value, a.value);
    const Scalar both = pool_.op(a.negative == b.negative ? ScalarOp::Add : ScalarOp::Sub, a.value, b.value);
    return a.negative && b.negative ? pool_.op(ScalarOp::Neg, both) : both;
  }

  ir::ScalarPool& pool_;
};

class Expansion {
 public:
  explicit Expansion(ir::Graph& graph)
      : graph_(graph), list_(graph.operations().begin(), graph.operations().end()), blocks_(ir::blocks(graph)) {
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
      auto* call = std::get_if<ir::Extern>(&op.node);
      if (const auto tile = call ? library_ops::winograd_tile(*call) : std::nullopt) {
        any = true;
        const Transforms& transforms = winograd::transforms(*tile);
        ConvolutionCall(*call).forget_winograd();
        if (takes_apart(*call)) {
          expand(i, *call, transforms);
          continue;
        }
      }
      if (auto found = results_.find(i); found != results_.end())
        write_results(op, found->second);
      else
        made_.push_back(std::move(op));
    }
    if (any) graph_.replace_operations(std::move(made_));
  }

 private:
  /// A convolution's products, still to be transformed.
  struct Products {
    const Transforms& transforms;
    ir::BufferId buffer;  ///< M[term, image, down, across, channel]; where the flag is 0 it begins with y[image, h, w,
                          ///< channel] itself
    ir::BufferView y;     ///< that loads of the body stand for
    std::optional<ir::BufferView> bias, flag;
  };

  /// How dimension `d` of four stands in loops over [image, down, across, channel].
  static constexpr std::size_t kLoop[] = {0, 3, 1, 2};

  bool takes_apart(const ir::Extern& call) const {
    if (ConvolutionCall(call).nan() == library_ops::kKeepNan) return false;
    const ir::BufferView& y = ConvolutionCall(call).result();
    const ir::Layout& layout = graph_.buffer(y.buffer).layout;
    return y.sizes == layout.sizes && y.strides == layout.strides && y.offset.is_constant(0) &&
           y.strides[1].is_constant(1);
  }

  ir::Operation loop(const ir::Operation& like, Exprs sizes, Scalar body, ir::BufferId out, Exprs store_index) const {
    return {.node = ir::Pointwise{std::move(sizes), body},
            .outs = {out},
            .store_index = std::move(store_index),
            .origins = like.origins,
            .where = like.where};
  }

  ir::BufferId temporary(const ir::BufferView& like, Exprs sizes) {
    const Device device = graph_.buffer(like.buffer).layout.device;
    Exprs strides = sym::contiguous_strides(sizes);
    return graph_
        .add_buffer("", ir::BufferKind::Computed, {DType::F32, device, std::move(sizes), std::move(strides), true})
        .id;
  }

  void expand(std::size_t at, const ir::Extern& call, const Transforms& t) {
    const ir::Operation& op = list_[at];
    const ConvolutionCall convolution(call);
    const ir::BufferView y = convolution.result();
    const Tiles tiles(y, t.tile);
    const Expr channels = convolution.weight().sizes[1], results = convolution.weight().sizes[0];
    const ir::BufferId v = transform_input(op, call, t, tiles, channels);
    const ir::BufferId m = temporary(y, {t.terms(), tiles.images, tiles.down, tiles.across, results});
    auto matrices = [&](ir::BufferId b, Expr columns) {
      return ir::BufferView{
          b, DType::F32, {t.terms(), tiles.count(), columns}, {tiles.count() * columns, columns, 1}, 0};
    };
    ir::Extern products{std::string(library_ops::matmul::kName),
                        {{std::string(library_ops::kHasBias.name), std::int64_t{0}}},
                        {matrices(v, channels), weights(convolution.weight(), t)},
                        {matrices(m, results)}};
    Products made{t, m, y, {}, {}};
    if (!convolution.nan().empty()) {
      namespace guarded = library_ops::winograd_products;
      std::vector<double> recover;
      for (const auto& row : t.recover)
        for (const auto& number : row) recover.push_back(number.value());
      products.op = guarded::kName;
      products.attributes = {{std::string(guarded::kPadding.name), convolution.padding(2)},
                             {std::string(guarded::kPaddingEnd.name), convolution.padding_end(2)},
                             {std::string(guarded::kRecover.name), std::move(recover)}};
      products.inputs.push_back(convolution.x());
      products.inputs.push_back(call.inputs.back());
      made.flag = call.inputs.back();
    }
    if (convolution.has_bias()) made.bias = convolution.bias();
    ir::Operation multiplied{.node = std::move(products), .outs = {m}, .origins = op.origins, .where = op.where};
    made_.push_back(std::move(multiplied));
    if (const auto reader = sole_reader(at, y)) {
      results_.emplace(*reader, made);
      return;
    }
    ir::Operation whole =
        loop(op, y.sizes, graph_.pool().load(y.buffer, DType::F32, graph_.ivars(y.sizes.size())), y.buffer, {});
    write_results(whole, made);
  }

  /// The loop over all of y that alone reads it, element by element: it may compute what it reads.
  std::optional<std::size_t> sole_reader(std::size_t at, const ir::BufferView& y) {
    const auto& readers = readers_[y.buffer];
    if (readers.size() != 1 || writers_[y.buffer] != 1 || blocks_[readers[0]] != blocks_[at] ||
        returned_.contains(y.buffer) || graph_.buffer(y.buffer).is_output || results_.contains(readers[0]))
      return std::nullopt;
    const ir::Operation& op = list_[readers[0]];
    const auto* reader = std::get_if<ir::Pointwise>(&op.node);
    if (!reader || !op.store_index.empty() || reader->sizes != y.sizes) return std::nullopt;
    for (Scalar load : ir::loads(reader->body))
      if (load->buffer == y.buffer && (load->op != ScalarOp::Load || load->mask || !load->args.empty() ||
                                       load->index != graph_.ivars(y.sizes.size())))
        return std::nullopt;
    return readers[0];
  }

  ir::BufferId transform_input(const ir::Operation& op, const ir::Extern& call, const Transforms& t, const Tiles& tiles,
                               Expr channels) {
    const ir::BufferView& x = ConvolutionCall(call).x();
    const std::vector<std::int64_t> padding = ConvolutionCall(call).padding(2);
    const Exprs sizes{tiles.images, tiles.down, tiles.across, channels};
    const auto loops = ir::loop_vars(graph_, sizes);
    LinearSums sums(graph_.pool());
    const ir::BufferId v = temporary(x, {t.terms(), tiles.images, tiles.down, tiles.across, channels});
    std::vector<std::vector<Scalar>> half;  // column by column of Bt d
    for (std::int64_t j = 0; j < t.square; ++j) {
      std::vector<Scalar> column;
      for (std::int64_t i = 0; i < t.square; ++i) {
        const Exprs index{graph_.ivar(kLoop[0]), graph_.ivar(kLoop[1]),
                          graph_.ivar(kLoop[2]) * t.tile + (i - padding[0]),
                          graph_.ivar(kLoop[3]) * t.tile + (j - padding[1])};
        column.push_back(element(x, index, loops));
      }
      half.push_back(sums.of_input(t.bt, column));
    }
    std::int64_t term = 0;
    for (std::size_t i = 0; i < half.size(); ++i) {
      std::vector<Scalar> row;
      for (const auto& column : half) row.push_back(column[i]);
      for (Scalar made : sums.of_input(t.bt, row)) made_.push_back(loop(op, sizes, made, v, stored_at(term++)));
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

  /// The loop that reads y, in as many as a tile has places.
  void write_results(const ir::Operation& op, const Products& products) {
    const auto& whole = std::get<ir::Pointwise>(op.node);
    auto& pool = graph_.pool();
    const Exprs vars = graph_.ivars(4);
    const std::int64_t tile = products.transforms.tile;
    const auto places = results(products);
    for (std::int64_t a = 0; a < tile; ++a)
      for (std::int64_t b = 0; b < tile; ++b) {
        // The tiles that have this place.
        const Exprs sizes{whole.sizes[0], whole.sizes[1], sym::ceil_div(whole.sizes[2] - a, tile),
                          sym::ceil_div(whole.sizes[3] - b, tile)};
        const Exprs index{vars[0], vars[1], vars[2] * tile + a, vars[3] * tile + b};
        const auto loops = ir::loop_vars(graph_, sizes);
        const auto simplified = [&](Expr e) { return graph_.env().simplify(e, loops); };
        Scalar value = places[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
        if (products.flag) value = unless_computed_exactly(products, value, index, simplified);
        if (products.bias)
          value = pool.op(ScalarOp::Add, value,
                          pool.linear_load(products.bias->buffer, DType::F32,
                                           products.bias->offset + vars[1] * products.bias->strides[0]));
        Scalar body = pool.substitute(whole.body, vars, index, simplified);
        body =
            pool.replace_loads(body, [&](Scalar load) { return load->buffer == products.y.buffer ? value : nullptr; });
        made_.push_back(loop(op, sizes, body, op.outs[0], index));
      }
  }

  /// At M A over loops [image, channel, down, across]: each place of a tile.
  std::vector<std::vector<Scalar>> results(const Products& products) {
    const Transforms& t = products.transforms;
    LinearSums sums(graph_.pool());
    std::vector<std::vector<Scalar>> half, out;  // half: column by column of At M
    for (std::int64_t j = 0; j < t.square; ++j) {
      std::vector<Scalar> column;
      for (std::int64_t i = 0; i < t.square; ++i)
        column.push_back(
            graph_.pool().load(products.buffer, DType::F32,
                               {t.square * i + j, graph_.ivar(0), graph_.ivar(2), graph_.ivar(3), graph_.ivar(1)}));
      half.push_back(sums.of_products(t.at, column));
    }
    for (std::size_t a = 0; a < t.at.size(); ++a) {
      std::vector<Scalar> row;
      for (const auto& column : half) row.push_back(column[a]);
      out.push_back(sums.of_products(t.at, row));
    }
    return out;
  }

  /// The value, or where the flag is 0 the result itself, which lies in place of the products.
  Scalar unless_computed_exactly(const Products& products, Scalar value, const Exprs& index,
                                 const std::function<Expr(Expr)>& simplified) {
    auto& pool = graph_.pool();
    const Exprs& y = products.y.sizes;
    const Scalar flag = pool.linear_load(products.flag->buffer, DType::I32, products.flag->offset);
    const Scalar exact = pool.op(ScalarOp::Eq, flag, pool.constant_int(DType::I32, 0));
    const Expr at = ((index[0] * y[2] + index[2]) * y[3] + index[3]) * y[1] + index[1];
    return pool.op(ScalarOp::Where, exact, pool.linear_load(products.buffer, DType::F32, simplified(at), {}, exact),
                   value);
  }

  Exprs stored_at(std::int64_t term) {
    Exprs at = graph_.ivars(4);
    at.insert(at.begin(), term);
    return at;
  }

  ir::BufferView weights(const ir::BufferView& w, const Transforms& t) {
    ir::BufferView view{0, DType::F32, {t.terms(), w.sizes[1], w.sizes[0]}, {}, 0};
    auto& made = weights_[{w.buffer, t.tile}];
    auto known = std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == w; });
    if (known == made.end()) {
      Tensor value = runtime::transformed_weight(*constant_operand(graph_, w), t);
      ir::Layout layout{DType::F32, graph_.buffer(w.buffer).layout.device, view.sizes, {}, true};
      layout.strides.assign(value.strides.begin(), value.strides.end());
      std::string name = graph_.buffer(w.buffer).name + ".winograd";
      if (const std::size_t earlier = forms_of_[w.buffer]++) name += fmt::format(".{}", earlier + 1);
      known = made.emplace(made.end(), w, graph_.add_buffer(name, ir::BufferKind::Constant, layout).id);
      graph_.constants.emplace(known->second, std::move(value));
    }
    view.buffer = known->second;
    view.strides = graph_.buffer(view.buffer).layout.strides;
    return view;
  }

  ir::Graph& graph_;
  std::vector<ir::Operation> list_;
  const std::vector<std::size_t> blocks_;
  std::unordered_map<ir::BufferId, std::vector<std::size_t>> readers_;
  std::unordered_map<ir::BufferId, std::size_t> writers_;
  std::set<ir::BufferId> returned_;
  std::unordered_map<std::size_t, Products> results_;  ///< by the operation that reads them
  std::map<std::pair<ir::BufferId, std::int64_t>, std::vector<std::pair<ir::BufferView, ir::BufferId>>>
      weights_;  ///< transformed, by buffer and tile, each with what it was made of: one of several calls stays one
  std::map<ir::BufferId, std::size_t> forms_of_;  ///< how many weights were made of a buffer
  std::vector<ir::Operation> made_;
};

}  // namespace

void choose_winograd(ir::Graph& graph, std::optional<std::int64_t> tile, std::optional<double> slices_from) {
  for (ir::Operation& op : graph.operations()) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call || !library_ops::has(call->op, library_ops::Trait::Convolution)) continue;
    if (const auto best = best_choice(graph, *call, tile, slices_from))
      ConvolutionCall(*call).choose_winograd(best->tile, best->slices);
  }
}

void expand_winograd(ir::Graph& graph) { Expansion(graph).run(); }

}  // namespace coil
