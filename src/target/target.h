// What a program is compiled for, as facts: what the device's kernels and libraries can do. Code outside of a device's
// own folders asks this, and never which device it is.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.h"
#include "tensor/dtype.h"

namespace coil::target {

enum class Feature : std::uint8_t {
  // Kernels.
  ThreadGrids,       ///< kernels run as grids of blocks of threads, in no order; else as ranges of a loop
  SplitsOverBlocks,  ///< a reduction with few results is split, so that there are blocks enough to fill the device
  FastDivision,      ///< a division costs no more than the load beside it
  WholeAttention,  ///< attention of floats up to 32 bits is one call; else it is written out as products and a softmax
  AttentionGradient,  ///< and so is its gradient, which takes no matrix of all scores
  AttentionKernels,   ///< attention in f32 has kernels of Coil's own, forward and backward
  Warpgroups,         ///< four warps multiply matrices in shared memory while they go on, in code for this family alone
  GroupConvolutions,  ///< convolutions in groups of few channels, in 16 bits, have kernels of Coil's own
  BlockedProducts,    ///< products in 16 bits have kernels of Coil's own
  BatchedLaunches,    ///< launches cost so much that equal kernels are put into one
  MeasuredLaunches,   ///< launch configurations and algorithms of products can be timed as the program is compiled
  VectorAtomics,      ///< memory adds 16 bytes of f32, f16 or bf16 by one instruction
  SortingKernels,     ///< kernels put rows in order, whole or piece by piece; else a library call does
  OrderedBlocks,      ///< a block may wait for one that began before it, and sees what that one wrote
  WatchedLifetimes,   ///< a run can watch that memory is used only while it lives
  NarrowFloats,       ///< kernels compute in floats of 32 bits at most; wider ones are moved about and rounded
  NarrowAtomics,      ///< threads update elements of 32 bits and less together, of 64 bits sums of integers alone
  PlainProducts,      ///< products are kernels of Coil's own that take operands in any strides
  PeerSums,           ///< kernels reach the memory of other ranks' devices, and add up over the ranks as they read
  FourierKernels,     ///< kernels transform lengths that have small factors alone (library_ops/fourier.h)
  RecordedGraphs,     ///< steps that need nothing of the host are recorded once and then launched whole
  // Libraries.
  PostOps,              ///< the library carries out post-operations (library_ops/post_ops.h) behind a product
  PackedWeights,        ///< constant weights are stored in the library's own form, which is read fastest
  ChannelsLastWeights,  ///< the library reads a convolution's weights, and the operands of their gradient, channels
                        ///< last
  FewPostOps,           ///< behind a product or convolution the library does an addition and one activation at most
  NanLoss,              ///< some of the library's activations turn NaN into a number
  Tf32,                 ///< the library multiplies f32 with operands rounded to TF32 when it may
  AnyRowAdded,          ///< the library adds a row to a product at no cost, whatever the matrices are
  ProductsIntoRows,     ///< the library writes large products into rows of any length
  IntegerProducts,      ///< the library multiplies matrices of integers
  Attention,            ///< the library has fused attention in 16 bits, with its gradient
  UnorderedGradients,   ///< the library adds up attention's gradient in another order from run to run
  Recurrences,          ///< the library runs a layer of a recurrent network over a whole sequence
  FourierTransforms,    ///< the library has Fourier transforms of any length
  Selections,           ///< library calls find positions that depend on data; else kernels do
  Winograd,             ///< 3x3 convolutions gain by Winograd's filtering around the library's products
  FoldedBatchNorm,      ///< a batch norm of inputs is worth folding into the weights before it, at every call
};

/// A set of features, as a value.
class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> features) {
    for (Feature f : features) bits_ |= bit(f);
  }
  constexpr void add(Feature f) { bits_ |= bit(f); }
  constexpr bool contains(Feature f) const { return bits_ & bit(f); }

 private:
  static constexpr std::uint64_t bit(Feature f) { return std::uint64_t{1} << static_cast<std::uint8_t>(f); }
  std::uint64_t bits_ = 0;
};

/// The size of a machine, as far as it shapes programs: enough to fill it, not which one it is. The numbers of threads
/// and their memory are zeros where kernels run as ranges of a loop, the rates where nothing asks for them.
struct Costs {
  std::int64_t multiprocessors = 0;
  std::int64_t threads_of_multiprocessor = 0;  ///< that it holds at once
  int threads_of_block = 0;                    ///< at most
  int threads_of_warp = 0;                     ///< that exchange values without shared memory
  /// Bytes of shared memory that a block may have while a multiprocessor still holds one or two such blocks.
  std::int64_t shared_bytes_of_block = 0;
  /// Bytes of shared memory that a kernel may declare with a size of its own; what a kernel adds beside fits as well.
  std::int64_t declared_shared_bytes = 0;
  int blocks_of_cluster = 0;  ///< neighbouring blocks that reach each other's shared memory, at most; 1: none do

  // What work takes. Only ratios count, and whatever is chosen by them is right.
  double operations_per_second = 0;       ///< additions and multiplications of f32, in the library's products
  double memory_bytes_per_second = 0;     ///< what is read from memory each time
  double cache_bytes_per_second = 0;      ///< what is written and read again within the caches
  double seconds_of_call = 0;             ///< of a library
  double half_operations_per_second = 0;  ///< as the first, of 16-bit floats
  double link_bytes_per_second = 0;       ///< from one rank to another; 0: nobody knows
  double seconds_of_exchange = 0;         ///< that a collective takes whatever it moves

  /// Rows of a product up to which a matrix that is made of half as many bytes, or fewer, is made where it is
  /// multiplied by each of them; it is made once in memory for more.
  std::int64_t rows_by_made_matrix = 0;

  /// Threads that the whole machine holds at once.
  std::int64_t threads() const { return multiprocessors * threads_of_multiprocessor; }
  /// Whether clusters of blocks are to hold rows of so many bytes in their registers from one pass over a row to the
  /// next: rows too long for one block and not for all of a cluster's, and enough of them that at least half of the
  /// machine has work. Kernels for such rows: codegen/heuristics/rows.h.
  bool holds_rows_in_clusters(std::int64_t rows, std::int64_t bytes_of_row) const;
};

/// The types of results that a device's library has an operation for, where those are not all.
struct TypeLimit {
  std::string op;  ///< library_ops/table.h
  std::vector<DType> types;
};

struct Target {
  Device device;       ///< where programs run and their tensors lie
  std::string arch;    ///< instruction set or architecture that the kernels' binaries need: `avx512`, `sm_90a`
  int generation = 0;  ///< of a GPU the number in its architecture (90 of sm_90a); 0 where there is none
  Features features;
  /// Bytes of the vectors that rows of large matrices should consist of for the library of products; 0: any will do.
  std::int64_t product_vector_bytes = 0;
  std::int64_t largest_attention_head = 0;  ///< elements of a head that the library's fused attention takes
  Costs costs;
  std::vector<TypeLimit> type_limits = {};  ///< of operations that are not in it the library has every type

  /// Whether the device's form of a library operation, if there is one, gives results of this type.
  bool takes(std::string_view op, DType result) const;
  /// Whether the library's fused attention in 16 bits takes heads of so many elements.
  bool takes_attention_head(std::int64_t elements) const {
    return elements % 8 == 0 && elements <= largest_attention_head;
  }
  bool has(Feature f) const { return features.contains(f); }
};

/// A processor with kernels for this instruction set.
Target cpu(std::string arch);
/// An NVIDIA GPU of this architecture, written like `sm_90`.
Target cuda(int index, std::string arch);
/// A processor that runs the kernels of a GPU, its threads one after another, for tests: libraries are the processor's.
Target emulated_cuda(std::string arch);
/// A GPU of Apple's.
Target metal(int index);
/// A processor that runs the kernels of one, for tests: libraries are the processor's.
Target emulated_metal(std::string arch);

/// The processor that compiles, as far as any of it can be told without asking it: what graphs without a target of
/// their own are for.
const Target& host();

}  // namespace coil::target
