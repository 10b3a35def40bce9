#include "runtime/ops/panel/gemm.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/threads.h"
#include "runtime/ops/onednn/onednn.h"
#include "runtime/ops/panel/kernels.h"
#include "runtime/views/turn_four.h"
#include "support/best_loops.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime::panels {
namespace {

constexpr std::string_view kForm = "panels:";  // panels:WIDTH:DTYPE
constexpr std::int64_t kVector = 16;
constexpr std::int64_t kLine = 64;  // bytes that the caches take together

/// How a weight of [K, N] lies: panel after panel of `width` columns, each [K, width]; the last one filled up with
/// zeros.
struct Form {
  DType dtype = DType::F32;
  std::int64_t width = kWidestPanel;

  std::string text() const { return fmt::format("{}{}:{}", kForm, width, short_name(dtype)); }
  std::int64_t panels(std::int64_t n) const { return (n + width - 1) / width; }
  std::size_t bytes(std::int64_t n, std::int64_t k) const {
    return static_cast<std::size_t>(panels(n) * k * width) * size_of(dtype);
  }
};

Form parse_form(std::string_view text) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16})
    for (std::int64_t width = kVector; width <= kWidestPanel; width += kVector)
      if (const Form form{dtype, width}; form.text() == text) return form;
  fail("a weight is packed as '{}', which this runtime does not know", text);
}

constexpr const char* kOtherMachine =
    "this machine cannot use a weight packed for wider vectors; compile the model for it";

std::optional<Element> element_of(DType d) {
  switch (d) {
    case DType::F32: return Element::F32;
    case DType::BF16: return Element::BF16;
    case DType::F16: return Element::F16;
    default: return std::nullopt;
  }
}

bool has_rows(const BoundView& v) { return element_of(v.dtype) && (v.strides[1] == 1 || v.sizes[1] == 1); }

/// Rows of neighbouring elements that do not overlap.
bool is_result(const BoundView& v) { return has_rows(v) && (v.sizes[0] == 1 || v.strides[0] >= v.sizes[1]); }

/// In multiplications, of which the reading of an element of the weight, seldom from the first-level cache, takes the
/// time of three: a row of 330 by 330 columns took one thread 18 us where the third-level cache had them, two 6.6.
std::int64_t work_of(const GemmProblem& p) { return (p.m + 3) * p.n * p.k; }

class PanelGemm : public PreparedCall {
 public:
  PanelGemm(const GemmProblem& p, const Form& form)
      : form_(form),
        kernels_(kernels_for(form)),
        m_(p.m),
        n_(p.n),
        k_(p.k),
        division_(divide(p.m, form.panels(p.n), work_of(p))),
        b_(staging_.input(p.b.index)) {
    const std::int64_t stretches = std::max<std::int64_t>(1, (k_ + kernels_.depth - 1) / kernels_.depth);
    depth_ = ((k_ + stretches - 1) / stretches + 3) / 4 * 4;
    describe_a(p.a);
    describe_y(p);
    if (p.bias) bias_ = dense(*p.bias, {n_});
    describe_post(p);
    whole_sums_ = stretches > 1;
    const std::int64_t rows = whole_sums_ ? (m_ + division_.row_blocks - 1) / division_.row_blocks : kernels_.rows[1];
    sum_floats_ = rows * kernels_.width;
    scratch_floats_ = sum_floats_ + (form_.dtype == DType::F32 ? 0 : depth_ * form_.width);
    scratch_ = staging_.scratch(static_cast<std::size_t>(scratch_floats_ * division_.threads) * sizeof(float));
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    if (m_ == 0 || n_ == 0) return;
    if (wide_a_) widen_a();
    for (std::size_t i = 0; i < post_.size(); ++i)
      if (post_operands_[i]) post_[i].operand = pointers_[*post_operands_[i]];
    parallel_ranges(division_.threads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t thread = begin; thread < end; ++thread) {
        const std::int64_t units = division_.units(), first = units * thread / division_.threads,
                           last = units * (thread + 1) / division_.threads;
        for (std::int64_t unit = first; unit < last; ++unit)
          multiply_unit(unit, pointer<float>(scratch_) + thread * scratch_floats_, unit + 1 < last);
      }
    });
    staging_.store(outputs, pointers_);
  }

 private:
  static const Kernels& kernels_for(const Form& form) {
    const Kernels& all = kernels_of_this_machine();
    if (form.width > all.width) fail(kOtherMachine);
    return all;
  }

  template <class T>
  T* pointer(Staging::Operand o) const {
    return static_cast<T*>(pointers_[o]);
  }

  Staging::Operand dense(const GemmOperand& o, const Sizes& sizes) {
    const BoundView wanted = dense_view(DType::F32, sizes);
    if (const auto v = reshape_view(o.given, sizes); v && *v == wanted) return staging_.input(o.index);
    return staging_.input(o.index, o.given, dense_view(DType::F32, o.given.sizes));
  }

  void describe_a(const GemmOperand& a) {
    const auto v = reshape_view(a.given, {m_, k_});
    if (v && has_rows(*v)) {
      a_ = staging_.input(a.index);
      a_step_ = v->strides[0];
      if (v->dtype == DType::F32) return;
      a_element_ = *element_of(v->dtype);
      wide_a_ = staging_.scratch(static_cast<std::size_t>(m_ * k_) * sizeof(float));
      return;
    }
    a_ = staging_.input(a.index, a.given, dense_view(DType::F32, a.given.sizes));
    a_step_ = k_;
  }

  void describe_y(const GemmProblem& p) {
    const bool old = std::ranges::any_of(p.post, [](const PostOp& op) { return op.kind == PostOp::Kind::Sum; });
    if (const auto v = reshape_view(p.y.given, {m_, n_}); v && is_result(*v)) {
      y_ = staging_.output(p.y.index);
      y_step_ = v->strides[0];
      y_element_ = *element_of(v->dtype);
      return;
    }
    y_ = staging_.output(p.y.index, p.y.given, dense_view(DType::F32, p.y.given.sizes), old);
    y_step_ = n_;
  }

  void describe_post(const GemmProblem& p) {
    std::size_t next = 0;
    for (const PostOp& op : p.post) {
      Post made{.kind = op.kind, .a = static_cast<float>(op.a), .b = static_cast<float>(op.b)};
      std::optional<Staging::Operand> operand;
      if (op.kind == PostOp::Kind::Sum) {
        operand = y_;
        made.element = y_element_;
        made.operand_step = y_step_;
      } else if (op.takes_operand()) {
        const GemmOperand& o = p.operands.at(next++);
        const auto v = reshape_view(o.given, {m_, n_});
        if (v && element_of(v->dtype) && (v->strides[1] == 0 || has_rows(*v))) {
          operand = staging_.input(o.index);
          made.element = *element_of(v->dtype);
          made.operand_step = v->strides[0];
          made.one_column = v->strides[1] == 0;
        } else {
          operand = staging_.input(o.index, o.given, dense_view(DType::F32, o.given.sizes));
          made.operand_step = n_;
        }
      }
      post_.push_back(made);
      post_operands_.push_back(operand);
    }
  }

  void widen_a() {
    constexpr std::int64_t kGrain = 16384;
    parallel_ranges(m_, kGrain / (k_ + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        kernels_.widen(pointer<float>(*wide_a_) + row * k_, pointer<char>(a_) + row * a_step_ * 2, a_element_, k_);
    });
  }

  const char* stretch_at(std::int64_t panel, std::int64_t from) const {
    return pointer<const char>(b_) +
           (panel * k_ + from) * form_.width * static_cast<std::int64_t>(size_of(form_.dtype));
  }

  /// `more`: another unit of this thread follows. For one row the weight streams by, which processors fetch ahead
  /// themselves.
  void multiply_unit(std::int64_t unit, float* scratch, bool more) const {
    const std::int64_t block = unit / division_.panels, panel = unit % division_.panels;
    const std::int64_t first = m_ * block / division_.row_blocks, last = m_ * (block + 1) / division_.row_blocks;
    std::int64_t from = 0;
    do {
      const std::int64_t to = std::min(from + depth_, k_);
      const char* ahead = m_ == 1   ? nullptr
                          : to < k_ ? stretch_at(panel, to)
                          : more    ? stretch_at((panel + 1) % division_.panels, 0)
                                    : nullptr;
      multiply_stretch(panel, first, last, from, to, scratch, ahead);
      from = to;
    } while (from < k_);
  }

  void multiply_stretch(std::int64_t panel, std::int64_t first, std::int64_t last, std::int64_t from, std::int64_t to,
                        float* scratch, const char* ahead) const {
    const float* b = reinterpret_cast<const float*>(stretch_at(panel, from));
    if (form_.dtype != DType::F32) {
      float* wide = scratch + sum_floats_;
      kernels_.widen(wide, b, *element_of(form_.dtype), (to - from) * form_.width);
      b = wide;
    }
    const int vectors = static_cast<int>((columns(panel) + kernels_.lanes - 1) / kernels_.lanes);
    const std::int64_t strips = (last - first + kernels_.rows[vectors] - 1) / kernels_.rows[vectors];
    const std::int64_t lines =
                           ahead ? depth_ * form_.width * static_cast<std::int64_t>(size_of(form_.dtype)) / kLine : 0,
                       turns = std::max<std::int64_t>(1, (to - from) / 4);
    // Lines for every four of k, until all are asked for.
    const std::int64_t rate = (lines + strips * turns - 1) / (strips * turns);
    std::int64_t fetched = 0;
    for (std::int64_t strip = 0, row = first; strip < strips; ++strip) {
      const std::int64_t end = first + (last - first) * (strip + 1) / strips;
      float* sum = whole_sums_ ? scratch + (row - first) * kernels_.width : scratch;
      Strip s{.a = a_rows(row) + from,
              .a_step = wide_a_ ? k_ : a_step_,
              .panel = b,
              .panel_step = form_.width,
              .k = to - from,
              .sum = sum,
              .sum_step = kernels_.width,
              .add = from > 0,
              .vectors = vectors,
              .rows = static_cast<int>(end - row)};
      if (fetched < lines) {
        s.ahead = ahead + fetched * kLine;
        s.lines = static_cast<int>(rate);
        fetched += rate * turns;
      }
      if (to == k_) fetch_results(panel, row, end);
      kernels_.multiply(s);
      if (to == k_) finish(panel, row, end, sum);
      row = end;
    }
  }

  /// Asks for what `finish` will read and write, which comes while the rows are multiplied.
  void fetch_results(std::int64_t panel, std::int64_t row, std::int64_t end) const {
    const std::int64_t column = panel * form_.width;
    const auto fetch = [&](void* start, Element element, std::int64_t step) {
      const std::int64_t bytes = element == Element::F32 ? 4 : 2, row_bytes = columns(panel) * bytes;
      for (std::int64_t r = row; r < end; ++r) {
        const char* at = static_cast<const char*>(start) + (r * step + column) * bytes;
        for (std::int64_t byte = 0; byte < row_bytes; byte += kLine) __builtin_prefetch(at + byte, 1);
      }
    };
    fetch(pointers_[y_], y_element_, y_step_);
    for (std::size_t i = 0; i < post_.size(); ++i)
      if (post_operands_[i] && *post_operands_[i] != y_ && !post_[i].one_column && post_[i].operand_step != 0)
        fetch(pointers_[*post_operands_[i]], post_[i].element, post_[i].operand_step);
  }

  const float* a_rows(std::int64_t row) const {
    return wide_a_ ? pointer<const float>(*wide_a_) + row * k_ : pointer<const float>(a_) + row * a_step_;
  }

  /// Columns of y that a panel holds.
  std::int64_t columns(std::int64_t panel) const { return std::min(form_.width, n_ - panel * form_.width); }

  void finish(std::int64_t panel, std::int64_t row, std::int64_t end, const float* sum) const {
    const std::int64_t column = panel * form_.width;
    Rows rows{.sum = sum,
              .row = row,
              .column = column,
              .rows = static_cast<int>(end - row),
              .columns = static_cast<int>(columns(panel))};
    if (bias_) rows.bias = pointer<const float>(*bias_);
    rows.post = post_.data();
    rows.posts = static_cast<int>(post_.size());
    rows.y = pointers_[y_];
    rows.element = y_element_;
    rows.y_step = y_step_;
    kernels_.finish(rows);
  }

  Form form_;
  const Kernels& kernels_;
  std::int64_t m_, n_, k_, depth_ = 0;
  Division division_;
  bool whole_sums_ = false;  ///< of a unit's rows: a panel is multiplied in several stretches
  Staging staging_;
  Staging::Operand a_ = 0, b_ = 0, y_ = 0, scratch_ = 0;
  std::optional<Staging::Operand> wide_a_, bias_;
  Element a_element_ = Element::F32, y_element_ = Element::F32;
  std::int64_t a_step_ = 0, y_step_ = 0, sum_floats_ = 0, scratch_floats_ = 0;
  std::vector<Post> post_;
  std::vector<std::optional<Staging::Operand>> post_operands_;
  std::vector<void*> pointers_;
};

}  // namespace

std::unique_ptr<PreparedCall> make_gemm(const GemmProblem& p) {
  if (!p.packed_desc.starts_with(kForm)) return nullptr;
  const Form form = parse_form(p.packed_desc);
  if (form.bytes(p.n, p.k) > p.packed_bytes) fail("a packed weight does not have the form that its description says");
  return std::make_unique<PanelGemm>(p, form);
}

namespace {

/// One panel of `width` of a weight whose elements lie `down` apart along K and `right` apart along N; columns that the
/// weight does not have are 0.
template <class T>
void pack_panel(T* to, std::int64_t width, const T* from, std::int64_t columns, std::int64_t k, std::int64_t down,
                std::int64_t right) {
  constexpr std::int64_t kBlock = 16;  // of k: lines of both sides stay in the first-level cache
  for (std::int64_t first = 0; first < k; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, k), fours = down == 1 ? (last - first) / 4 * 4 : 0,
                       turned = columns / 4 * 4;
    for (std::int64_t column = 0; column < width; ++column) {
      const bool by_four = column < turned;
      if (by_four && column % 4 == 0)
        for (std::int64_t i = first; i < first + fours; i += 4)
          turn_four(to + i * width + column, width, from + i + column * right, right);
      for (std::int64_t i = first + (by_four ? fours : 0); i < last; ++i)
        to[i * width + column] = column < columns ? from[i * down + column * right] : T{};
    }
  }
}

}  // namespace

Division divide(std::int64_t m, std::int64_t panels, std::int64_t multiplications, std::int64_t most_rows) {
  constexpr std::int64_t kLeastRows = 24;
  Division d{(m + most_rows - 1) / most_rows, panels, threads_worth(multiplications)};
  auto waste = [&](std::int64_t blocks) {
    const std::int64_t units = blocks * panels, rounds = (units + d.threads - 1) / d.threads;
    return rounds * d.threads * 10 > units * 11;  // a tenth of the threads' time
  };
  std::int64_t blocks = d.row_blocks;
  while (waste(blocks) && m / (blocks + 1) >= kLeastRows) ++blocks;
  if (!waste(blocks) || d.units() < d.threads) d.row_blocks = blocks;
  d.threads = static_cast<int>(std::min<std::int64_t>(d.threads, d.units()));
  return d;
}

bool is_costly(const PostOp& op) {
  using enum PostOp::Kind;
  return op.kind == Silu || op.kind == GeluErf || op.kind == GeluTanh;
}

namespace {

const Kernels* found_kernels() {
  static const Kernels* const found = best_loops<Kernels>(COIL_ON_X86(&kAvx512), COIL_ON_X86(&kAvx2), nullptr);
  return found;
}

}  // namespace

bool machine_has_kernels() { return found_kernels() != nullptr; }

const Kernels& kernels_of_this_machine() {
  const Kernels* found = found_kernels();
  if (!found) fail(kOtherMachine);
  return *found;
}

std::int64_t widest_panel(std::string_view isa) {
#ifdef __x86_64__
  if (isa.starts_with("avx512")) return kAvx512.width;
  if (isa.starts_with("avx2")) return kAvx2.width;
#endif
  return 0;
}

std::int64_t panel_width(std::int64_t results, std::int64_t widest) {
  return std::min((results + kVector - 1) / kVector * kVector, widest);
}

std::int64_t width_of_form(std::string_view packed_form) {
  const std::int64_t width = parse_form(packed_form).width;
  if (width > kernels_of_this_machine().width) fail(kOtherMachine);
  return width;
}

int threads_worth(std::int64_t multiplications) {
  constexpr std::int64_t kLeastWork = 1 << 17;  // of one thread
  return static_cast<int>(std::clamp<std::int64_t>(multiplications / kLeastWork, 1, thread_count()));
}

bool multiplies(const GemmProblem& p) {
  return machine_runs("avx512") && element_of(p.a.given.dtype) && element_of(p.b.given.dtype) &&
         element_of(p.y.given.dtype);
}

std::string packed_form(DType dtype, std::int64_t width) { return Form{dtype, width}.text(); }

std::size_t packed_bytes(DType dtype, std::int64_t n, std::int64_t k, std::int64_t width) {
  return Form{dtype, width}.bytes(n, k);
}

void pack(std::byte* to, const std::byte* from, const BoundView& b, std::int64_t width) {
  const Form form{b.dtype, width};
  const std::int64_t k = b.sizes[0], n = b.sizes[1];
  parallel_ranges(form.panels(n), 1 + 16384 / (k * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t column = panel * width, columns = std::min(width, n - column), down = b.strides[0],
                         right = b.strides[1];
      auto pack_as = [&]<class T>(T) {
        pack_panel(reinterpret_cast<T*>(to) + panel * k * width, width,
                   reinterpret_cast<const T*>(from) + column * right, columns, k, down, right);
      };
      size_of(form.dtype) == 4 ? pack_as(std::uint32_t{}) : pack_as(std::uint16_t{});
    }
  });
}

namespace {

/// Whether oneDNN's GEMM for machines without AVX-512 takes none of these post-operations or, for those with powers of
/// e, five times as long as these loops (Zen 1: gelu 15 and 2.3 ns an element).
bool onednn_finishes_slowly(const GemmProblem& p) {
  using enum PostOp::Kind;
  const auto has_powers = [](const PostOp& op) {
    return is_costly(op) || op.kind == Sigmoid || op.kind == Tanh || op.kind == Elu;
  };
  return std::ranges::any_of(p.post, has_powers) || !onednn::has_gemm_kernel(p);
}

/// Whether oneDNN's GEMM for AVX2 takes its operands as they lie, as it does with few rows, though what it writes does
/// not stay in the cache: two thirds of its usual speed (Zen 3, docs/performance_cpu.md).
bool onednn_copies_too_little(const GemmProblem& p) {
  constexpr std::int64_t kFewRows = 256, kManyRows = 384, kResultsInCache = 400'000;
  const std::int64_t results = numel(p.y.sizes), rows = p.n > 0 ? results / p.n : 0;
  return rows >= kFewRows && rows <= kManyRows && results > kResultsInCache;
}

}  // namespace

std::optional<Packed> pack_gemm(const GemmProblem& p, const Tensor& weight, std::string_view isa) {
  // Of fewer, a panel's sums are stored as often as they are added to, which costly post-operations make up for.
  constexpr std::int64_t kLeastColumns = 64;
  const std::int64_t least_depth = std::ranges::any_of(p.post, is_costly) ? 32 : 128;
  const std::int64_t widest = widest_panel(isa);
  if (widest == 0 || !element_of(weight.dtype) || !element_of(p.a.given.dtype) || !element_of(p.y.given.dtype) ||
      p.k == 0)
    return std::nullopt;
  // With AVX2 oneDNN's own products are as fast, where it does not treat them badly.
  const bool gains = widest == kWidestPanel ? p.n >= kLeastColumns && p.k >= least_depth
                                            : onednn_finishes_slowly(p) || onednn_copies_too_little(p);
  if (!p.batch_invariant && !gains) return std::nullopt;
  if (!p.batch_invariant && p.a.given.dtype == DType::BF16 && weight.dtype == DType::BF16 && onednn::multiplies_bf16())
    return std::nullopt;
  Packed packed;
  packed.attributes["packed_desc"] = packed_form(weight.dtype, widest);
  const std::size_t bytes = packed_bytes(weight.dtype, p.n, p.k, widest);
  packed.bytes = {Storage::allocate(bytes, true), DType::U8, {static_cast<std::int64_t>(bytes)}, {1}, 0};
  packed.fill = [to = packed.bytes, weight, view = BoundView{weight.dtype, p.b.given.sizes, p.b.given.strides},
                 widest] { pack(to.bytes(), weight.bytes(), view, widest); };
  return packed;
}

}  // namespace coil::runtime::panels
