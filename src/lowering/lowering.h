// ATen operators to IR: one entry for each operator, one file for each family.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "fx/graph.h"
#include "ir/tensor_box.h"

namespace coil::lowering {

using ir::Scalar;
using ir::TensorBox;
using sym::Expr;
using sym::Exprs;

/// The lowered value of an fx node: a tensor, several values, or nothing (numbers are read from metadata).
struct Lowered : std::variant<std::monostate, TensorBox, std::vector<TensorBox>> {
  using variant::variant;
};

/// Where sums of rows at places that data say are made from sorted places (lowering/indexing/sorted_scatter.cpp).
enum class SortSums : std::uint8_t { Never, WhereItGains, Always };

struct LowerOptions {
  bool fallback = false;  ///< operators without lowering become calls of the host, not an error
  /// Whether a device carries out a library call; with `fallback`, operators that would need another become calls of
  /// the host. Empty: all of them.
  std::function<bool(const ir::Extern&, Device)> implemented = {};
  /// Large products that only leave the program are written where they go, where the library can do it.
  bool products_into_rows = true;
  SortSums sort_sums = SortSums::WhereItGains;
  /// Products' operands may grow by zeros to whole vectors, where the library is slow on others.
  bool grows_products = true;
  /// Writes to one place are carried out in program order, where the device's threads would do them in any.
  bool orders_writes = false;
  /// What a value's bits depend on does not follow from the size of a batch.
  bool batch_invariant = false;
  /// Convolutions that are sums over windows (lowering/convolutions/choice.h) are loops on a device that runs kernels
  /// as grids of threads, whose library is slow at them.
  bool windows_by_kernels = true;
  /// The fusion policy's (scheduler/schedule.h).
  ir::RealizeLimits realize = {};
  /// The largest operands, in bytes, of sums over a process group that each rank adds up from the memory of all, and of
  /// those that ranks add up by shares (lowering/collectives.cpp). 0: none. one_shot_bytes of -1: by the number of
  /// ranks.
  std::int64_t one_shot_bytes = 0, two_shot_bytes = 0;
  /// What products make is added up by the group's collective where it would be by shares, for the wrapper's pass
  /// chunk-collectives to start it chunk by chunk.
  bool chunks_sums = false;
  /// Names of the arguments that a host's operator takes in memory that ranks share. Empty: none of any.
  std::function<std::vector<std::string>(std::string_view op)> symm_mem_args = {};
};

/// State of one lowering.
class Context {
 public:
  Context(const fx::GraphModule& module, ir::Graph& graph, const LowerOptions& options)
      : module(module), graph(graph), options(options) {}
  const fx::GraphModule& module;
  ir::Graph& graph;
  const LowerOptions options;
  const fx::Node* node = nullptr;  ///< being lowered

  /// What carries out the node: what the program is compiled for, or the host where the node's values lie there.
  const target::Target& target() const;
  /// Bytes of the vectors that products' rows should consist of; 0: any will do.
  std::int64_t product_vector_bytes() const { return options.grows_products ? target().product_vector_bytes : 0; }

  /// The tensor that an argument stands for; throws Error when it is none.
  TensorBox tensor(const ops::Value&) const;
  std::optional<TensorBox> optional_tensor(const ops::Value&) const;
  std::vector<TensorBox> tensors(const ops::Value&) const;
  /// Integers, symbolic ones through their node's metadata.
  Expr integer(const ops::Value&) const;
  Exprs integers(const ops::Value&) const;
  /// A number (int, float, bool) as a scalar of this register type.
  Scalar number(const ops::Value&, DType register_type) const;
  /// Metadata of the node being lowered: what the result must be.
  const sym::TensorMeta& result() const { return node->tensor(); }
  const sym::TensorMeta& result(std::size_t i) const;

  /// The recorded size gets its value here: what `count` (0-d, integers or bools) holds. Where the record is no symbol,
  /// or one that has a value already, the run must find that very number.
  void define(Expr recorded, const TensorBox& count);
  /// The same for a float that lies in memory (0-d, F64): the symbol that has its bits, where it is recorded by one.
  void define(const ops::SymFloat& recorded, const TensorBox& number);
  /// A number that the program computes as it runs, as a new symbol.
  Expr read(const TensorBox& number, sym::Range = {});
  /// Sizes that only a branch tells get their values on one of its sides, and what is known of them is checked there.
  void set(const std::vector<std::pair<Expr, Expr>>& values);
  /// Whether all sizes in it have values.
  bool is_known(Expr) const;
  /// The run fails with the message unless the condition holds.
  void require(Expr condition, const std::string& message);

  /// The program's own assertions, each made as soon as the symbols in it have values, and made once.
  struct PendingAssert {
    Expr condition;
    std::string message, where;
    std::set<std::string> origins;
  };
  std::vector<PendingAssert> pending;
  /// What is asserted so far. On each side of a branch it is what was before the branch; after it, what both sides
  /// asserted.
  struct Asserted {
    std::unordered_set<Expr> conditions;
    std::vector<PendingAssert> pending;
  };
  Asserted asserted() const { return {required_, pending}; }
  void go_back_to(Asserted);
  void intersect_asserted(const Asserted& other_side);
  void assert_what_is_known();
  /// Values as operators of the host were given them. A second one gets the same memory, which it may know: a copy that
  /// another stream makes of it ends with a later call. Of one side of a branch only that side has them.
  std::map<const fx::Node*, ir::BufferView> host_operands;
  std::set<std::string> input_symbols;  ///< unbacked ones that inputs give
  /// What products made of storages to have whole vectors (linear_algebra.cpp), by the dimensions that grew; each
  /// behind the storage that it was made of.
  std::map<std::pair<const ir::StorageBox*, std::vector<bool>>,
           std::pair<std::shared_ptr<ir::StorageBox>, std::shared_ptr<ir::StorageBox>>>
      grown_storages;
  /// Places that scatters were sorted by (sorted_scatter.cpp): several to the same places sort them once.
  struct SortedPlaces {
    Scalar place;
    Exprs sizes;
    library_ops::Attributes order;
    std::vector<TensorBox> sorted;
  };
  std::vector<SortedPlaces> sorted_places;
  /// Forgets what was computed on the way and would be used again, where what follows may run without what came before.
  void forget_shared_values();

  std::unordered_map<const fx::Node*, Lowered> values;

 private:
  void check_range(Expr symbol);
  std::unordered_set<Expr> required_;
};

using LoweringFunction = std::function<Lowered(Context&, const ops::Values& args)>;

/// The lowering of an operator, or null.
const LoweringFunction* find(std::string_view target);
/// Operators of a module (subgraphs included) without lowering on this device, with their source lines, as one message;
/// empty when all have one.
std::string unsupported(const fx::GraphModule&);
/// Lowers a functional, decomposed module. Throws Error with every unsupported operator listed.
std::unique_ptr<ir::Graph> lower(const fx::GraphModule&, const LowerOptions& = {},
                                 const target::Target& = target::host());

}  // namespace coil::lowering
