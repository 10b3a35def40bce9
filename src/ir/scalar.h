// Loop bodies as data: immutable scalar expressions over loads, constants and index expressions, equal exactly when
// identical.
//
// A body is written over the loop variables of its loop nest (`i0, i1, …` for the output's dimensions, `r0, r1, …` for
// reduced ones). Fusing is substitution of a load by its producer's body; printing, hashing, counting reads and
// rewriting walk the expression and replay nothing.
//
// Semantics, written once. A scalar's dtype is its *register* type: f16, bf16 and float8 are f32 in registers (a load
// widens, a store rounds to nearest even), so intermediate results of narrow floats keep f32's precision until they are
// stored or explicitly rounded (`Round`). Integers wrap. Comparisons give Bool. Float semantics are IEEE; contraction
// of a*b+c is allowed, reassociation is not (reductions choose their own order).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/extension_api.h"
#include "sym/shape_env.h"
#include "tensor/dtype.h"

namespace coil::ir {

using sym::Expr;
using sym::Exprs;
using BufferId = std::uint32_t;

// X(enumerator, name in text IR and, with the prefix c_, in kernels, number of operands)
// clang-format off
#define COIL_SCALAR_OPS(X)                                                                                    \
  X(Add, "add", 2) X(Sub, "sub", 2) X(Mul, "mul", 2) X(Div, "div", 2)                                         \
  X(FloorDiv, "floordiv", 2) X(TruncDiv, "truncdiv", 2) X(Rem, "rem", 2) X(Fmod, "fmod", 2) X(Pow, "pow", 2)  \
  X(Gcd, "gcd", 2)                                                                                            \
  X(Max, "max", 2) X(Min, "min", 2) X(FMax, "fmax", 2) X(FMin, "fmin", 2)                                     \
  X(Atan2, "atan2", 2) X(Hypot, "hypot", 2) X(Copysign, "copysign", 2) X(Nextafter, "nextafter", 2)           \
  X(And, "and", 2) X(Or, "or", 2) X(Xor, "xor", 2) X(Not, "not", 1) X(Shl, "shl", 2) X(Shr, "shr", 2)         \
  X(Eq, "eq", 2) X(Ne, "ne", 2) X(Lt, "lt", 2) X(Le, "le", 2) X(Gt, "gt", 2) X(Ge, "ge", 2)                   \
  X(Where, "where", 3)                                                                                        \
  X(Neg, "neg", 1) X(Abs, "abs", 1) X(Sign, "sign", 1) X(Sqrt, "sqrt", 1) X(Rsqrt, "rsqrt", 1)                \
  X(Recip, "recip", 1) X(Floor, "floor", 1) X(Ceil, "ceil", 1) X(Trunc, "trunc", 1) X(RoundEven, "round", 1)  \
  X(IsNan, "isnan", 1) X(IsInf, "isinf", 1) X(Signbit, "signbit", 1)                                          \
  X(Exp, "exp", 1) X(Exp2, "exp2", 1) X(Expm1, "expm1", 1) X(Log, "log", 1) X(Log2, "log2", 1)                \
  X(Log10, "log10", 1) X(Log1p, "log1p", 1) X(Sin, "sin", 1) X(Cos, "cos", 1) X(Tan, "tan", 1)                \
  X(Asin, "asin", 1) X(Acos, "acos", 1) X(Atan, "atan", 1) X(Sinh, "sinh", 1) X(Cosh, "cosh", 1)              \
  X(Tanh, "tanh", 1) X(Asinh, "asinh", 1) X(Acosh, "acosh", 1) X(Atanh, "atanh", 1) X(Erf, "erf", 1)          \
  X(Erfc, "erfc", 1) X(Erfinv, "erfinv", 1) X(Sigmoid, "sigmoid", 1) X(Lgamma, "lgamma", 1)                   \
  X(Digamma, "digamma", 1)                                                                                    \
  X(I0, "i0", 1) X(I0e, "i0e", 1) X(I1, "i1", 1) X(I1e, "i1e", 1) X(K0, "k0", 1) X(K0e, "k0e", 1)             \
  X(K1, "k1", 1) X(K1e, "k1e", 1) X(J0, "j0", 1) X(J1, "j1", 1) X(Y0, "y0", 1) X(Y1, "y1", 1)                 \
  X(Erfcx, "erfcx", 1) X(Ndtri, "ndtri", 1) X(AiryAi, "airy_ai", 1)                                           \
  X(Zeta, "zeta", 2) X(Igamma, "igamma", 2) X(Igammac, "igammac", 2)                                          \
  X(ChebyshevT, "chebyshev_t", 2) X(ChebyshevU, "chebyshev_u", 2) X(ChebyshevV, "chebyshev_v", 2)             \
  X(ChebyshevW, "chebyshev_w", 2) X(HermiteH, "hermite_h", 2) X(HermiteHe, "hermite_he", 2)                   \
  X(Laguerre, "laguerre", 2) X(Legendre, "legendre", 2)                                                       \
  X(GammaQuantile, "gamma_quantile", 2) X(PoissonDraw, "poisson_draw", 2) X(BinomialDraw, "binomial_draw", 3)
// clang-format on

enum class ScalarOp : std::uint8_t {
  Load,        ///< element of `buffer` at `index` (one expression per dimension of the buffer's layout)
  LinearLoad,  ///< the same with `index` of one expression, counted in elements from the buffer's start: reads through
               ///< as_strided
  Index,       ///< the value of index expression `index[0]` as I64, or of a condition as Bool
  Constant,    ///< `number` (floats) or `integer` (integers, bool)
  Cast,        ///< conversion of args[0] to `dtype`, as torch converts
  Round,       ///< f32 args[0] rounded to the precision of `rounded` (f16, bf16): what `to` means inside a fused body
  Bitcast,     ///< the bits of args[0] as `dtype` of the same width
  CheckIndex,  ///< I64 args[0], an index into a dimension of size index[0]: what is negative or not below the size sets
               ///< the kernel's status and gives 0
  Require,  ///< integer args[0], by which something is divided; where Bool args[1] does not hold it is 0, and kernels
            ///< of the CPU set their status. Others take the value as it is
  Random,   ///< 32 random bits (U32) of element index[0]: a function of the I64 seed args[0], of the operator's number
            ///< `integer` and the element alone, so that what is computed again is the same (device/shared/philox.h)
#define X(e, ...) e,
  COIL_SCALAR_OPS(X)
#undef X
};

/// Name in text IR.
COIL_EXTENSION_API std::string_view name_of(ScalarOp);
/// The one of COIL_SCALAR_OPS with that name.
std::optional<ScalarOp> scalar_op(std::string_view name);
/// How many operands one of COIL_SCALAR_OPS has.
COIL_EXTENSION_API int operands_of(ScalarOp);
/// The type that one of COIL_SCALAR_OPS gives for operands of this type (for where: for the values it chooses from).
DType result_type(ScalarOp, DType operand);
COIL_EXTENSION_API bool is_comparison(ScalarOp);

struct ScalarNode;
/// Lives as long as its ScalarPool.
using Scalar = const ScalarNode*;

struct ScalarNode {
  ScalarOp op;
  DType dtype;               ///< register type of the value
  std::vector<Scalar> args;  ///< of a Load: the values of indirect variables x0, x1, … that `index` may name
  Exprs index;
  BufferId buffer = 0;
  Scalar mask = nullptr;       ///< of a Load: read only where this Bool holds; the value is 0 elsewhere
  DType rounded = DType::F32;  ///< of a Round: the narrow type; of a Load: the type as stored
  double number = 0;
  std::int64_t integer = 0;
  std::uint64_t hash = 0;
  std::uint32_t ops = 1;  ///< size of the expression as a tree, saturating: what realisation limits look at
  bool has_loads = false;
};

/// Makes and owns scalars, each distinct one once. Folds constants and trivial identities that are exact (x*1, x+0 for
/// integers, where(true, …), casts to the same type).
class COIL_EXTENSION_API ScalarPool {
 public:
  explicit ScalarPool(sym::ShapeEnv& env);
  ~ScalarPool();

  Scalar load(BufferId, DType storage, Exprs index, std::vector<Scalar> indirect = {}, Scalar mask = nullptr);
  Scalar linear_load(BufferId, DType storage, Expr index, std::vector<Scalar> indirect = {}, Scalar mask = nullptr);
  Scalar index(Expr);      ///< I64
  Scalar condition(Expr);  ///< Bool
  Scalar constant(DType register_type, double value);
  Scalar constant_int(DType register_type, std::int64_t value);
  Scalar cast(Scalar, DType to);  ///< `to` may be a storage type: narrow floats give F32 with Round
  Scalar bitcast(Scalar, DType to);
  Scalar check_index(Scalar index, Expr size);
  Scalar require(Scalar value, Scalar condition);
  Scalar random(Scalar seed, std::int64_t salt, Expr element);
  /// Any of COIL_SCALAR_OPS. Operands must have one dtype (shifts and where's condition apart); the result's is theirs,
  /// or Bool for comparisons.
  Scalar op(ScalarOp, Scalar a, Scalar b = nullptr, Scalar c = nullptr);
  /// The node as it is, nothing folded: what was printed is read back so. (Hash and counts are computed.)
  Scalar exactly(ScalarNode node) { return intern(std::move(node)); }

  /// The indirect variable x<k>: a loop-kind symbol that stands for args[k] in a load's index.
  Expr indirect(std::size_t k);

  /// Loop variables replaced everywhere (indices, conditions), all at once; `simplify` is applied to each new index
  /// expression.
  Scalar substitute(Scalar, std::span<const Expr> from, std::span<const Expr> to,
                    const std::function<Expr(Expr)>& simplify);
  /// Each index expression and condition replaced by what `f` gives for it.
  Scalar map_indices(Scalar, const std::function<Expr(Expr)>& f);
  /// Each load (both kinds) for which `f` gives a value replaced by it, bottom up.
  Scalar replace_loads(Scalar, const std::function<Scalar(Scalar load)>& f);
  /// Loads below this scalar read only where `mask` holds; the value is `otherwise` elsewhere.
  Scalar masked(Scalar value, Scalar mask, Scalar otherwise);

  sym::ShapeEnv& env() { return env_; }

 private:
  Scalar intern(ScalarNode);
  struct Impl;
  sym::ShapeEnv& env_;
  std::unique_ptr<Impl> impl_;
};

/// F32 for narrow floats, the type itself otherwise.
inline DType register_type(DType storage) { return compute_dtype(storage); }
inline bool is_load(Scalar s) { return s->op == ScalarOp::Load || s->op == ScalarOp::LinearLoad; }
/// Every node below (and with) `root`, operands before users, each once.
COIL_EXTENSION_API std::vector<Scalar> topological(std::span<const Scalar> roots);
/// Whether something is checked as a value is computed, an index or what else the value needs, which may fail the run.
COIL_EXTENSION_API bool may_fail(Scalar root);
/// Loads of both kinds below the root, each distinct one once.
COIL_EXTENSION_API std::vector<Scalar> loads(Scalar root);
std::vector<Scalar> loads(std::span<const Scalar> roots);
/// `add(load(buf0, [i0, i1]), 1.0)`.
COIL_EXTENSION_API std::string to_string(Scalar);

}  // namespace coil::ir
