// Some blocks of a placement placed anew between the others.
#pragma once
#include <optional>
#include <random>

#include "runtime/plan/arena_problem.h"

namespace coil::runtime {

/// Takes blocks out of a placement and fills the room up again, from the lowest address upwards: where it is hardest to
/// fill, with a block that leaves little waste there. Tries a few ways in each place, and goes back where one ends
/// above the limits.
class Refill {
 public:
  /// Both are kept for as long as this lives.
  Refill(const ArenaProblem&, const Placement&);

  /// Looks for places for `members` (numbers of blocks) in which nothing ends above the placement's peak, and no more
  /// lies above `target` than now, summed up over cliques. Where there are, offsets() has them.
  bool run(std::span<const std::uint32_t> members, std::uint64_t target, std::mt19937& random);
  /// Looks for places for all blocks in an arena of `most` bytes. Where it was stuck the last time it goes other ways,
  /// and elsewhere the same again.
  bool run_all(std::uint64_t most, std::mt19937& random);
  std::span<const std::uint64_t> offsets() const { return offsets_; }
  /// What was done so far, in looks at a clique or a block: about a nanosecond each.
  std::uint64_t work() const { return work_; }

 private:
  struct Column {                     ///< a clique that members live in
    std::uint64_t floor = 0;          ///< the lowest address that may be free
    std::uint64_t least = 0;          ///< where it ends at least: the floor and all that is to lie above
    std::uint64_t left = 0;           ///< bytes of members that are to be placed
    std::uint32_t next = 0;           ///< the first fixed block above the floor
    std::uint64_t ceiling = kNoPeak;  ///< where that one begins
  };
  struct Member {
    std::uint64_t bytes, alignment;
    std::uint32_t block, first, last;
    double preference;
    bool placed;
  };
  struct Fixed {
    std::uint64_t begin, end;
  };
  /// Columns of one height, side by side.
  struct Level {
    std::uint32_t first, last;
    std::uint64_t floor, left, right;  ///< and the heights beside it
  };
  struct Choice {
    std::uint32_t member;
    double score;
  };
  /// A place to be filled, and what was tried there.
  struct Node {
    std::size_t before;  ///< saved columns when it was come to
    std::size_t raised;  ///< and when what nothing covers was raised
    Level level;
    std::uint32_t column;
    std::uint64_t free_up_to;  ///< if nothing is placed on the column
    std::vector<Choice> choices;
    std::size_t tried = 0;
  };

  /// Which level is filled next.
  enum class Walk : std::uint8_t { Lowest, FromLeft, FromRight, Nearest };

  void draw(std::span<const std::uint32_t> members, std::mt19937& random);
  void set_up(std::span<const std::uint32_t> members);
  void add_fixed();
  bool fill();
  bool enter();
  bool next_way(Node&);
  bool put(std::uint32_t m, std::uint64_t floor);
  void take_back(std::uint32_t m);
  bool is_within_limits(std::uint32_t column) const;

  std::uint64_t height(std::uint32_t column) const;
  Level level_from(std::uint32_t first) const;
  Level next_level();
  Level lowest_level();
  Level valley();
  bool raise_what_nothing_covers(const Level&, bool& raised);
  std::uint32_t hardest(const Level&) const;
  std::vector<Choice> choices(const Level&, std::uint32_t column);
  std::optional<double> waste_beside(const Member&, const Level&, std::uint64_t end);
  std::optional<double> waste(std::uint32_t first, std::uint32_t last, const Level&, std::uint64_t left,
                              std::uint64_t right, const Member& without);
  std::uint64_t free_up_to(const Level&, std::uint32_t column) const;

  std::uint64_t above_target(std::uint32_t column) const;
  std::uint64_t ceiling(std::uint32_t column) const { return columns_[column].ceiling; }
  void raise(std::uint32_t column, std::uint64_t to);
  void skip_fixed(std::uint32_t column);
  void change(std::uint32_t column, const Column&);
  void assign(std::uint32_t column, const Column&);
  void back_to(std::size_t saved);

  const ArenaProblem& problem_;
  const Placement& placement_;
  std::vector<std::uint64_t> offsets_;
  std::vector<bool> is_member_;  ///< of blocks
  std::vector<double> chance_;   ///< of each block, what chance adds to how much it is preferred
  std::vector<bool> stuck_;      ///< columns that could not be filled

  std::uint32_t first_ = 0;  ///< the first column's clique
  std::vector<Member> members_;
  std::vector<Column> columns_;
  std::vector<std::vector<std::uint32_t>> starting_;  ///< members that are to be placed, by the column they begin in
  std::vector<std::uint32_t> place_;                  ///< of each member among those
  std::vector<std::vector<Fixed>> fixed_;             ///< in each column, upwards
  std::vector<std::uint64_t> fixed_end_;              ///< where the last of them ends
  std::vector<std::uint64_t> lowest_;                 ///< floor in each group of columns
  std::vector<char> stale_;                           ///< whether that has to be looked up again

  std::vector<std::pair<std::uint32_t, Column>> saved_;  ///< columns as they were
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> candidates_;  ///< members that could lie on the lowest level
  std::vector<std::int32_t> covers_;       ///< how many of them over each of its columns
  std::vector<std::int32_t> scratch_;
  std::uint64_t target_ = 0, highest_ = 0, excess_ = 0, allowed_ = 0, work_ = 0;
  std::size_t left_ = 0, entered_ = 0;
  Walk walk_ = Walk::Lowest;
};

}  // namespace coil::runtime
