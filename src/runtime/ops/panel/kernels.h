// The inner loops of products by panels (runtime/ops/panel/gemm.h), in vectors of AVX-512 and of AVX2. This header and
// the files that are compiled for those include nothing with inline functions: the linker keeps one copy of them, and
// it could be one that other machines cannot run.
#pragma once
#include <cstdint>

#include "library_ops/post_op_kind.h"

namespace coil::runtime::panels {

using library_ops::PostOpKind;

enum class Element { F32, BF16, F16 };

/// Some rows of a times a stretch of one panel.
struct Strip {
  const float* a = nullptr;      ///< rows of `k` neighbouring elements
  std::int64_t a_step = 0;       ///< from one row to the next
  const float* panel = nullptr;  ///< [k, panel_step]
  std::int64_t panel_step = 0;
  std::int64_t k = 0;
  float* sum = nullptr;         ///< [rows, the panel's columns]
  std::int64_t sum_step = 0;    ///< from one row to the next
  bool add = false;             ///< to what `sum` holds
  int vectors = 1;              ///< of the panel's columns that are multiplied
  int rows = 1;                 ///< at most Kernels::rows of so many vectors
  const char* ahead = nullptr;  ///< memory that will be read next
  int lines = 0;                ///< cache lines of it to fetch for every four of `k`
};

/// Channels each by themselves: sum[r][c] is the sum over taps of x[r * x_step + places[t] + c] * weight[weights[t] +
/// c].
struct Channels {
  const float* x = nullptr;
  std::int64_t x_step = 0;               ///< from one row to the next
  const std::int64_t* places = nullptr;  ///< of each tap
  const float* weight = nullptr;
  const std::int64_t* weights = nullptr;  ///< of each tap
  std::int64_t taps = 0;
  float* sum = nullptr;  ///< [rows, width]
  int rows = 1, columns = 0;
};

/// One post-operation. The operand of Add and Mul (and of Sum, which is y itself) steps by `operand_step` elements from
/// row to row; its columns are neighbours, or one number serves all.
struct Post {
  PostOpKind kind = PostOpKind::Relu;
  float a = 0, b = 0;
  const void* operand = nullptr;
  Element element = Element::F32;
  std::int64_t operand_step = 0;
  bool one_column = false;
};

/// y = post(sum + bias) for some rows of one panel. All but `sum` begin at y's first row and column.
struct Rows {
  const float* sum = nullptr;        ///< [rows, width]
  std::int64_t row = 0, column = 0;  ///< of y, where these rows begin
  int rows = 1, columns = 0;         ///< columns of the panel that y has
  const float* bias = nullptr;       ///< or none
  const Post* post = nullptr;
  int posts = 0;
  void* y = nullptr;
  Element element = Element::F32;
  std::int64_t y_step = 0;
};

/// Copies `rows` rows of `taps` pieces, which become neighbours.
struct Pieces {
  float* to = nullptr;
  std::int64_t to_step = 0;  ///< from one row to the next
  const float* from = nullptr;
  std::int64_t from_step = 0, tap_step = 0;  ///< from one row to the next, and from one piece to the next
  std::int64_t rows = 0, taps = 0, length = 0;
};

/// Columns of a matrix become rows.
struct Turn {
  float* to = nullptr;
  std::int64_t to_step = 0;  ///< from one row to the next
  const float* from = nullptr;
  std::int64_t from_step = 0;          ///< from one row to the next
  std::int64_t rows = 0, columns = 0;  ///< of `from`
};

struct Kernels {
  int width, lanes;    ///< of the widest panel, and of a vector
  const int* rows;     ///< at most of a strip, by the vectors of the panel that it multiplies
  std::int64_t depth;  ///< of a stretch: two of them and what is read beside them stay in the second-level cache
  void (*multiply)(const Strip&);
  void (*widen)(float* to, const void* from, Element, std::int64_t count);
  void (*finish)(const Rows&);
  void (*copy)(const Pieces&);
  void (*turn)(const Turn&);
  void (*multiply_channels)(const Channels&);
};

// On x86-64 alone.
extern const Kernels kAvx512, kAvx2;

}  // namespace coil::runtime::panels
