// Collectives: what processes exchange while a program runs. Their names, attributes and reductions.
//
// A call starts an exchange and returns; `wait_collective` on its result returns when the values are there. Until then
// nothing touches the result, and nothing writes to the operand. Some take several tensors of one type, which go at
// once; each result has a wait of its own.
#pragma once
#include "library_ops/attribute.h"
#include "tensor/dtype.h"

namespace coil::library_ops::collectives {

inline constexpr std::string_view kAllReduce = "all_reduce", kAllGather = "all_gather",
                                  kReduceScatter = "reduce_scatter", kAllToAll = "all_to_all", kBroadcast = "broadcast",
                                  kSend = "send", kReceive = "receive", kWait = "wait_collective";
/// Sums through memory that all ranks reach, done when the call returns, and a barrier of its ranks.
inline constexpr std::string_view kOneShot = "one_shot_all_reduce", kTwoShot = "two_shot_all_reduce",
                                  kBarrier = "comm_barrier";
/// Begins a sum that kernels carry out as they read its operand, and the largest operand of one.
inline constexpr std::string_view kBeginPeerSum = "begin_peer_sum";
inline constexpr std::int64_t kPeerSumBytes = 256 << 10;
/// Words of the table by which they reach the other ranks.
inline constexpr std::int64_t kPeerTableWords = 32;

inline constexpr Text kGroup{
    .name = "group",
    .sentence = "The process group, by the name that the exported program has; `default` is all processes.",
    .presence = Presence::Required};
inline constexpr Integer kRanks{.name = "ranks",
                                .sentence = "Processes of the group that the program was exported for; 0: any number.",
                                .fallback = 0};
inline constexpr Text kReduce{
    .name = "reduce",
    .sentence = "How values are combined: `sum`, `avg`, `product`, `min`, `max`, `band`, `bor` or `bxor`.",
    .presence = Presence::Required};
inline constexpr Integer kSource{
    .name = "source", .sentence = "The rank in the group whose values all get.", .presence = Presence::Required};
inline constexpr Integers kInputSplits{
    .name = "input_splits", .sentence = "Rows of x that go to each rank; the same number where it is not given."};
inline constexpr Integers kOutputSplits{
    .name = "output_splits", .sentence = "Rows of y that come from each rank; the same number where it is not given."};
inline constexpr Flag kTold{.name = "told", .sentence = "The last operand has both lists instead."};

inline constexpr Flag kByRanks{
    .name = "by_ranks",
    .sentence = "Every rank adds up all where that is faster in a group of so many; x then keeps its values."};
inline constexpr Integer kPeer{
    .name = "peer", .sentence = "The other rank, by its number in the group.", .presence = Presence::Required};
inline constexpr Integer kTag{
    .name = "tag", .sentence = "Messages between two ranks with one tag come in order.", .fallback = 0};

/// What a collective does with rows of one tensor, where these are all that it exchanges: it combines those of all
/// ranks, gives each rank its share of what is combined, or puts those of all ranks behind one another.
enum class RowExchange : std::uint8_t { Other, Reduces, Scatters, Gathers };
RowExchange row_exchange(std::string_view op);

/// Whether values on a GPU can be combined so: NCCL has no bits, no 16-bit integers, and no order or product of
/// complex numbers.
bool combines_off_host(std::string_view reduce, DType);

}  // namespace coil::library_ops::collectives
