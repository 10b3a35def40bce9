#include "library_ops/collectives.h"

#include "library_ops/table.h"

namespace coil::library_ops {

namespace {

/// The operand of a collective that several tensors of one type may share.
Operand exchanged(std::string name, std::string sizes) {
  return {.name = std::move(name), .sizes = std::move(sizes), .sentence = "dense, row-major", .repeated = true};
}

}  // namespace

std::vector<Descriptor> collective_ops() {
  using namespace collectives;
  return {
      {.name = std::string(kAllReduce),
       .sentence = "Starts to combine the x of all ranks, element by element, into y, which may be x itself.",
       .operands = {exchanged("x", "any")},
       .results = {exchanged("y", "like x")},
       .attributes = {kGroup, kReduce},
       .traits = {Trait::Collective}},
      {.name = std::string(kAllGather),
       .sentence = "Starts to put the x of all ranks behind one another, in order of their ranks.",
       .operands = {exchanged("x", "[N, ..]")},
       .results = {exchanged("y", "[ranks N, ..]")},
       .attributes = {kGroup, kRanks},
       .traits = {Trait::Collective}},
      {.name = std::string(kReduceScatter),
       .sentence = "Starts to combine the x of all ranks, of which each gets its share of rows, in order of the ranks.",
       .operands = {exchanged("x", "[ranks N, ..]")},
       .results = {exchanged("y", "[N, ..]")},
       .attributes = {kGroup, kRanks, kReduce},
       .traits = {Trait::Collective}},
      {.name = std::string(kAllToAll),
       .sentence = "Starts to send each rank its rows of x; y has what came, in order of the ranks.",
       .operands = {{"x", "[N, ..]", "dense, row-major"},
                    {.name = "splits",
                     .sizes = "[2, ranks]",
                     .sentence = "rows of x for each rank, then rows of y from each; i64",
                     .when = When(kTold),
                     .read_by_host = true}},
       .results = {{"y", "[M, ..]", "dense, row-major"}},
       .attributes = {kGroup, kInputSplits, kOutputSplits, kTold},
       .traits = {Trait::Collective}},
      {.name = std::string(kBroadcast),
       .sentence = "Starts to give all ranks the x of one of them in y, which may be x itself.",
       .operands = {{"x", "any", "dense, row-major"}},
       .results = {{"y", "like x", "dense, row-major"}},
       .attributes = {kGroup, kSource},
       .traits = {Trait::Collective}},
      {.name = std::string(kSend),
       .sentence = "Starts to send x to another rank, which receives as many elements.",
       .operands = {{"x", "any", "dense, row-major"}},
       .results = {{"y", "[1]", "no values: what is waited for"}},
       .attributes = {kGroup, kPeer, kTag},
       .traits = {Trait::Collective}},
      {.name = std::string(kReceive),
       .sentence = "Starts to receive y from another rank.",
       .operands = {{"x", "like y", "the same memory, whose values are of no use"}},
       .results = {{"y", "like x", "dense, row-major"}},
       .attributes = {kGroup, kPeer, kTag},
       .traits = {Trait::Collective}},
      {.name = std::string(kWait),
       .sentence = "Returns when the collective that gives y is done: y has its values, and x may be written to again.",
       .operands = {{"y", "any", "what the collective gave"},
                    {.name = "x", .sizes = "any", .sentence = "what it reads, where it is not y", .optional = true}},
       .results = {{"y", "the same memory"}},
       .attributes = {},
       .traits = {Trait::Wait}},
      {.name = std::string(kOneShot),
       .sentence = "Adds up the x of all ranks, each of which reads all of them where they lie, in the order of the "
                   "ranks; 16-bit floats in f32.",
       .operands = {{"x", "any", "in a communication buffer of the group; dense, row-major"}},
       .results = {{"y", "like x", "dense, row-major; in memory of its own"}},
       .attributes = {kGroup},
       .traits = {Trait::Exchange, Trait::OneShotSum}},
      {.name = std::string(kTwoShot),
       .sentence =
           "As one_shot_all_reduce, but each rank adds up its share alone, over its own x, and the others read the "
           "sums there.",
       .operands = {{"x", "any", "in a communication buffer of the group; dense, row-major"}},
       .results = {{"y", "like x", "dense, row-major; in memory of its own"},
                   {"x", "the same memory", "of no use any more"}},
       .attributes = {kGroup, kByRanks},
       .traits = {Trait::Exchange}},
      {.name = std::string(kBeginPeerSum),
       .sentence =
           "From here on x is the sum of the x of all ranks, in the order of the ranks; 16-bit floats are added "
           "in f32. Kernels add them up as they read x, by the table: each reads it once, in one order on all "
           "ranks.",
       .operands = {{"x", "any", "up to 256 KiB in a communication buffer of the group; dense, row-major"}},
       .results = {{"x", "the same memory"},
                   {"table", "[32]", "i64; behind what else lies in the memory that the ranks of the group share"}},
       .attributes = {kGroup},
       .traits = {Trait::Exchange, Trait::PeerSum}},
      {.name = std::string(kBarrier),
       .sentence = "Returns when all ranks of the group have come to it.",
       .operands = {{"x", "any", "in a communication buffer of the group"}},
       .results = {{"x", "the same memory"}},
       .attributes = {kGroup},
       .traits = {Trait::Exchange, Trait::Barrier}},
  };
}

collectives::RowExchange collectives::row_exchange(std::string_view op) {
  if (op == kAllReduce) return RowExchange::Reduces;
  if (op == kReduceScatter) return RowExchange::Scatters;
  return op == kAllGather ? RowExchange::Gathers : RowExchange::Other;
}

bool collectives::combines_off_host(std::string_view reduce, DType dtype) {
  if (dtype == DType::I16 || dtype == DType::U16) return false;
  if (reduce.starts_with('b')) return dtype == DType::Bool && reduce != "bxor";
  return !is_complex(dtype) || reduce == "sum" || reduce == "avg";
}

}  // namespace coil::library_ops
