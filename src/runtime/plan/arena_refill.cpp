#include "runtime/plan/arena_refill.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kWays = 3;      // tried in one place
constexpr std::size_t kLookedAt = 8;  // candidates of which the waste beside them is computed
constexpr std::size_t kManyCandidates = 256;
constexpr std::uint32_t kGroup = 64;  // columns
constexpr std::size_t kManyColumns = 1024;

}  // namespace

Refill::Refill(const ArenaProblem& problem, const Placement& placement)
    : problem_(problem),
      placement_(placement),
      offsets_(problem.blocks.size(), 0),
      is_member_(problem.blocks.size(), false),
      chance_(problem.blocks.size(), 0) {}

bool Refill::run(std::span<const std::uint32_t> members, std::uint64_t target, std::mt19937& random) {
  target_ = target;
  highest_ = placement_.peak;
  for (std::uint32_t b : members) is_member_[b] = true;
  stuck_.clear();
  draw(members, random);
  walk_ = static_cast<Walk>(random() % 4);
  set_up(members);
  stuck_.assign(columns_.size(), false);
  for (std::uint32_t b : members) is_member_[b] = false;
  return excess_ <= allowed_ && fill();
}

bool Refill::run_all(std::uint64_t most, std::mt19937& random) {
  std::vector<std::uint32_t> all(problem_.blocks.size());
  std::iota(all.begin(), all.end(), 0);
  target_ = highest_ = most;
  is_member_.assign(all.size(), true);
  draw(all, random);
  walk_ = static_cast<Walk>(random() % 4);
  set_up(all);
  stuck_.assign(columns_.size(), false);
  is_member_.assign(all.size(), false);
  allowed_ = 0;
  return excess_ == 0 && fill();
}

/// New chances, for those of `members` that live in a column that could not be filled.
void Refill::draw(std::span<const std::uint32_t> members, std::mt19937& random) {
  for (std::uint32_t b : members) {
    const ArenaBlock& block = problem_.blocks[b];
    bool stuck = stuck_.empty();
    for (std::uint32_t c = block.first; c <= block.last && !stuck; ++c) stuck = stuck_[c];
    if (!stuck) continue;
    const double noise = random() % 2 == 0 ? 0.1 : 0.5;
    chance_[b] = noise * static_cast<double>(random() % 1024) / 1024;
  }
}

void Refill::set_up(std::span<const std::uint32_t> members) {
  first_ = UINT32_MAX;
  std::uint32_t last = 0;
  std::uint64_t most = 1;
  for (std::uint32_t b : members) {
    first_ = std::min(first_, problem_.blocks[b].first);
    last = std::max(last, problem_.blocks[b].last);
    most = std::max(most, problem_.blocks[b].bytes);
  }
  columns_.assign(last - first_ + 1, {});
  starting_.resize(std::max(starting_.size(), columns_.size()));
  for (std::size_t c = 0; c < columns_.size(); ++c) starting_[c].clear();
  members_.clear();
  place_.clear();
  for (std::uint32_t b : members) {
    const ArenaBlock& block = problem_.blocks[b];
    const double length = static_cast<double>(block.last - block.first + 1) / static_cast<double>(columns_.size()),
                 bytes = static_cast<double>(block.bytes) / static_cast<double>(most);
    const std::uint32_t from = block.first - first_, to = block.last - first_;
    place_.push_back(static_cast<std::uint32_t>(starting_[from].size()));
    starting_[from].push_back(static_cast<std::uint32_t>(members_.size()));
    members_.push_back({block.bytes, block.alignment, b, from, to, length + bytes / 8 + chance_[b], false});
    for (std::uint32_t c = from; c <= to; ++c) columns_[c].left += block.bytes;
    work_ += to - from + 1;
  }
  add_fixed();
  saved_.clear();
  lowest_.assign(columns_.size() / kGroup + 1, 0);
  stale_.assign(lowest_.size(), true);
  excess_ = 0;
  for (std::uint32_t c = 0; c < columns_.size(); ++c) {
    columns_[c].least += columns_[c].left;
    if (!fixed_[c].empty()) columns_[c].ceiling = fixed_[c].front().begin;
    skip_fixed(c);
    excess_ += above_target(c);
  }
  left_ = members_.size();
}

/// What is not taken out stays where it is.
void Refill::add_fixed() {
  const auto count = static_cast<std::uint32_t>(columns_.size());
  fixed_.resize(std::max<std::size_t>(fixed_.size(), count));
  for (std::uint32_t c = 0; c < count; ++c) fixed_[c].clear();
  fixed_end_.assign(count, 0);
  std::vector<std::uint64_t> top(count, 0);
  for (std::uint32_t b = 0; b < problem_.blocks.size(); ++b) {
    const ArenaBlock& block = problem_.blocks[b];
    if (block.last < first_ || block.first >= first_ + count) continue;
    const std::uint32_t from = std::max(block.first, first_) - first_, to = std::min(block.last - first_, count - 1);
    const std::uint64_t begin = placement_.offsets[b], end = begin + block.bytes;
    work_ += 4 * (to - from + 1);
    for (std::uint32_t c = from; c <= to; ++c) {
      top[c] = std::max(top[c], end);
      if (is_member_[b]) continue;
      fixed_[c].push_back({begin, end});
      columns_[c].least += block.bytes;
      fixed_end_[c] = std::max(fixed_end_[c], end);
    }
  }
  work_ += problem_.blocks.size();
  allowed_ = 0;
  for (std::uint32_t c = 0; c < count; ++c) {
    std::ranges::sort(fixed_[c], {}, &Fixed::begin);
    allowed_ += top[c] - std::min(top[c], target_);
  }
}

// ---- Columns ----

std::uint64_t Refill::above_target(std::uint32_t c) const {
  const std::uint64_t end = std::max(columns_[c].least, fixed_end_[c]);
  return end - std::min(end, target_);
}

bool Refill::is_within_limits(std::uint32_t c) const { return excess_ <= allowed_ && columns_[c].least <= highest_; }

/// A floor on which a fixed block lies is that block's end.
void Refill::skip_fixed(std::uint32_t c) {
  Column& column = columns_[c];
  while (column.ceiling == column.floor) {
    const std::vector<Fixed>& fixed = fixed_[c];
    column.floor = fixed[column.next++].end;
    column.ceiling = column.next < fixed.size() ? fixed[column.next].begin : kNoPeak;
  }
}

void Refill::assign(std::uint32_t c, const Column& to) {
  excess_ -= above_target(c);
  columns_[c] = to;
  excess_ += above_target(c);
  stale_[c / kGroup] = true;
}

void Refill::change(std::uint32_t c, const Column& to) {
  saved_.emplace_back(c, columns_[c]);
  assign(c, to);
  skip_fixed(c);
}

void Refill::back_to(std::size_t saved) {
  for (; saved_.size() > saved; saved_.pop_back()) assign(saved_.back().first, saved_.back().second);
}

/// What lies between stays free.
void Refill::raise(std::uint32_t c, std::uint64_t to) {
  Column now = columns_[c];
  to = std::min(to, ceiling(c));
  now.least += to - now.floor;
  now.floor = to;
  change(c, now);
}

// ---- What could lie where ----

/// Heights without members, and beyond the ends, are no heights: nothing crosses them.
std::uint64_t Refill::height(std::uint32_t c) const {
  return c < columns_.size() && columns_[c].left > 0 ? columns_[c].floor : kNoPeak;
}

Refill::Level Refill::level_from(std::uint32_t first) const {
  Level level{first, first, height(first), first == 0 ? kNoPeak : height(first - 1), kNoPeak};
  while (level.last + 1 < columns_.size() && height(level.last + 1) == level.floor) ++level.last;
  level.right = height(level.last + 1);
  return level;
}

Refill::Level Refill::next_level() {
  return walk_ == Walk::Lowest || columns_.size() > kManyColumns ? lowest_level() : valley();
}

Refill::Level Refill::lowest_level() {
  const auto count = static_cast<std::uint32_t>(columns_.size());
  for (std::uint32_t g = 0; g < lowest_.size(); ++g) {
    if (!stale_[g]) continue;
    lowest_[g] = kNoPeak;
    for (std::uint32_t c = g * kGroup; c < std::min(count, (g + 1) * kGroup); ++c)
      lowest_[g] = std::min(lowest_[g], height(c));
    stale_[g] = false;
    work_ += kGroup;
  }
  const auto group = std::ranges::min_element(lowest_);
  COIL_CHECK(*group != kNoPeak, "there is nothing to place");
  auto first = static_cast<std::uint32_t>(group - lowest_.begin()) * kGroup;
  while (height(first) != *group) ++first;
  work_ += lowest_.size();
  return level_from(first);
}

/// A level that both its neighbours are higher than. A walk from one side to the other, or to the nearest, tries other
/// ways in one region before it goes on to the next.
Refill::Level Refill::valley() {
  const std::uint32_t here = nodes_.empty() ? static_cast<std::uint32_t>(columns_.size() / 2) : nodes_.back().column;
  auto distance = [&](const Level& l) { return here < l.first ? l.first - here : here > l.last ? here - l.last : 0; };
  std::optional<Level> best;
  work_ += columns_.size();
  for (std::uint32_t c = 0; c < columns_.size();) {
    const Level level = level_from(c);
    c = level.last + 1;
    if (level.floor == kNoPeak || level.left < level.floor || level.right < level.floor) continue;
    if (walk_ == Walk::FromLeft) return level;
    if (!best || walk_ == Walk::FromRight || distance(level) < distance(*best)) best = level;
  }
  COIL_CHECK(best.has_value(), "there is nothing to place");
  return *best;
}

/// Finds the candidates of a level, and raises the columns over which there are none. False where that is too much.
bool Refill::raise_what_nothing_covers(const Level& level, bool& raised) {
  candidates_.clear();
  covers_.assign(level.last - level.first + 2, 0);
  std::uint64_t lowest_ceiling = kNoPeak;
  for (std::uint32_t c = level.first; c <= level.last; ++c) lowest_ceiling = std::min(lowest_ceiling, ceiling(c));
  for (std::uint32_t begin = level.first; begin <= level.last; ++begin) {
    for (std::uint32_t m : starting_[begin]) {
      const Member& member = members_[m];
      if (member.last > level.last) continue;
      const std::uint64_t end = aligned(level.floor, member.alignment) + member.bytes;
      bool fits = true;
      if (end > lowest_ceiling)
        for (std::uint32_t c = member.first; c <= member.last && fits; ++c) fits = end <= ceiling(c);
      if (!fits) continue;
      candidates_.push_back(m);
      ++covers_[member.first - level.first];
      --covers_[member.last + 1 - level.first];
    }
    work_ += 3 + starting_[begin].size();
  }
  const std::uint64_t beside = std::min(level.left, level.right);
  std::int32_t covering = 0;
  raised = false;
  for (std::uint32_t c = level.first; c <= level.last; ++c) {
    covering = covers_[c - level.first] += covering;
    if (covering > 0) continue;
    const std::uint64_t up = std::min(beside, ceiling(c));
    raise(c, up == kNoPeak ? lowest_ceiling : up);
    raised = true;
    if (is_within_limits(c)) continue;
    stuck_[c] = true;
    return false;
  }
  return true;
}

/// The column in which least may be wasted, and of such the one with the fewest candidates.
std::uint32_t Refill::hardest(const Level& level) const {
  auto key = [&](std::uint32_t c) {
    const std::uint64_t room = target_ - std::min(target_, columns_[c].least);
    return std::pair(room / (target_ / 64 + 1), covers_[c - level.first]);
  };
  std::uint32_t best = level.first;
  auto least = key(best);
  for (std::uint32_t c = level.first + 1; c <= level.last; ++c)
    if (auto now = key(c); now < least) best = c, least = now;
  return best;
}

/// What must stay free between two columns of a level, with these heights beside them, once a candidate is used up:
/// of each column as a share of what may. None where that is too much.
std::optional<double> Refill::waste(std::uint32_t first, std::uint32_t last, const Level& level, std::uint64_t left,
                                    std::uint64_t right, const Member& without) {
  scratch_.assign(last - first + 2, 0);
  for (std::uint32_t m : candidates_) {
    const Member& member = members_[m];
    if (&member == &without || member.first < first || member.last > last) continue;
    ++scratch_[member.first - first];
    --scratch_[member.last + 1 - first];
  }
  work_ += candidates_.size() + scratch_.size();
  double sum = 0;
  std::int32_t covering = 0;
  for (std::uint32_t c = first; c <= last; ++c) {
    covering += scratch_[c - first];
    if (covering > 0) continue;
    const std::uint64_t up = std::min({left, right, ceiling(c)});
    if (up == kNoPeak) continue;  // only blocks that a fixed one is in the way of are left there
    const std::uint64_t least = columns_[c].least + up - level.floor;
    if (least > highest_ || least - std::min(least, target_) > allowed_) return std::nullopt;
    sum += static_cast<double>(up - level.floor) /
           static_cast<double>(highest_ - std::min(highest_ - 1, columns_[c].least));
  }
  return sum;
}

std::optional<double> Refill::waste_beside(const Member& member, const Level& level, std::uint64_t end) {
  double sum = 0;
  if (level.first < member.first) {
    const auto left = waste(level.first, member.first - 1, level, level.left, end, member);
    if (!left) return std::nullopt;
    sum += *left;
  }
  if (member.last < level.last) {
    const auto right = waste(member.last + 1, level.last, level, end, level.right, member);
    if (!right) return std::nullopt;
    sum += *right;
  }
  return sum;
}

/// The candidates over a column that look best, the best one last.
std::vector<Refill::Choice> Refill::choices(const Level& level, std::uint32_t column) {
  const auto worse = [](const Choice& a, const Choice& b) {
    return a.score != b.score ? a.score < b.score : a.member > b.member;
  };
  std::vector<Choice> found;
  for (std::uint32_t m : candidates_)
    if (members_[m].first <= column && members_[m].last >= column) found.push_back({m, members_[m].preference});
  const bool look = candidates_.size() <= kManyCandidates;
  const std::size_t most = look ? std::max(kLookedAt, kManyCandidates / (candidates_.size() + 1)) : kWays;
  if (found.size() > most) {
    std::ranges::nth_element(found, found.end() - static_cast<std::ptrdiff_t>(most), worse);
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(most));
  }
  if (look)
    std::erase_if(found, [&](Choice& c) {
      const Member& member = members_[c.member];
      const auto lost = waste_beside(member, level, aligned(level.floor, member.alignment) + member.bytes);
      c.score -= lost.value_or(0);
      return !lost;
    });
  std::ranges::sort(found, worse);
  if (found.size() > kWays) found.erase(found.begin(), found.end() - kWays);
  return found;
}

/// Where the next thing could begin on a column on which nothing is placed now.
std::uint64_t Refill::free_up_to(const Level& level, std::uint32_t column) const {
  std::uint64_t up = std::min({level.left, level.right, ceiling(column)});
  for (std::uint32_t m : candidates_)
    if (members_[m].first > column || members_[m].last < column)
      up = std::min(up, aligned(level.floor, members_[m].alignment) + members_[m].bytes);
  return up;
}

// ---- The search ----

bool Refill::put(std::uint32_t m, std::uint64_t floor) {
  Member& member = members_[m];
  const std::uint64_t at = aligned(floor, member.alignment), end = at + member.bytes;
  member.placed = true;
  offsets_[member.block] = at;
  --left_;
  std::vector<std::uint32_t>& beside = starting_[member.first];
  beside[place_[m]] = beside.back();
  place_[beside.back()] = place_[m];
  beside.pop_back();
  work_ += 4 * (member.last - member.first + 1);
  for (std::uint32_t c = member.first; c <= member.last; ++c) {
    Column now = columns_[c];
    now.floor = end;
    now.least += at - floor;
    now.left -= member.bytes;
    change(c, now);
    if (!is_within_limits(c)) return false;
  }
  return true;
}

void Refill::take_back(std::uint32_t m) {
  Member& member = members_[m];
  member.placed = false;
  ++left_;
  place_[m] = static_cast<std::uint32_t>(starting_[member.first].size());
  starting_[member.first].push_back(m);
}

/// Comes to the lowest level. False where nothing goes there.
bool Refill::enter() {
  ++entered_;
  Node node{.before = saved_.size()};
  for (bool raised = true; raised;) {
    node.level = next_level();
    if (raise_what_nothing_covers(node.level, raised)) continue;
    back_to(node.before);
    return false;
  }
  node.raised = saved_.size();
  node.column = hardest(node.level);
  node.choices = choices(node.level, node.column);
  if (node.choices.empty()) stuck_[node.column] = true;
  node.free_up_to = free_up_to(node.level, node.column);
  nodes_.push_back(std::move(node));
  return true;
}

/// Goes back to the node and on in the next way from it. False where there is none.
bool Refill::next_way(Node& node) {
  const std::size_t count = node.choices.size();
  if (node.tried > 0 && node.tried <= count) take_back(node.choices[count - node.tried].member);
  back_to(node.raised);
  while (node.tried < count) {
    const std::uint32_t m = node.choices[count - ++node.tried].member;
    if (put(m, node.level.floor)) return true;
    take_back(m);
    back_to(node.raised);
  }
  if (node.tried++ > count || node.free_up_to == kNoPeak) return false;
  raise(node.column, node.free_up_to);
  return is_within_limits(node.column);
}

bool Refill::fill() {
  nodes_.clear();
  entered_ = 0;
  const std::size_t most = left_ + left_ / 2 + 16;
  if (left_ == 0 || !enter()) return left_ == 0;
  while (!nodes_.empty() && entered_ < most) {
    Node& node = nodes_.back();
    if (!next_way(node)) {
      back_to(node.before);
      nodes_.pop_back();
    } else if (left_ == 0) {
      return true;
    } else {
      enter();  // where that fails the next way is tried
    }
  }
  return false;
}

}  // namespace coil::runtime
