#include "ops/shapes/einsum.h"

#include <algorithm>
#include <array>

namespace coil::ops::shapes {

namespace {

constexpr std::size_t kLetters = 52, kEllipsis = 52;

std::size_t letter_index(char c, std::string_view equation) {
  if (c >= 'A' && c <= 'Z') return static_cast<std::size_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<std::size_t>(c - 'a') + 26;
  fail("aten.einsum.default: `{}` in equation `{}` is no subscript", c, equation);
}

/// Subscripts of one operand or of the result; an ellipsis is kEllipsis.
std::vector<std::size_t> subscripts(std::string_view text, std::string_view equation) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] != '.') {
      list.push_back(letter_index(text[i], equation));
      continue;
    }
    if (text.substr(i, 3) != "..." || std::find(list.begin(), list.end(), kEllipsis) != list.end())
      fail("aten.einsum.default: equation `{}` has a stray `.`", equation);
    list.push_back(kEllipsis);
    i += 2;
  }
  return list;
}

Value ints(const std::vector<std::size_t>& list) {
  Values values;
  for (std::size_t i : list) values.push_back(static_cast<std::int64_t>(i));
  return values;
}

class Contraction {
 public:
  Contraction(std::string_view equation, const Values& operands, const Steps& steps)
      : equation_(equation), operands_(operands), steps_(steps) {}

  Value run() {
    parse();
    order_dimensions();
    for (std::size_t i = 0; i < operands_.size(); ++i) align(i);
    return contract();
  }

 private:
  void parse() {
    auto arrow = equation_.find("->");
    std::string_view left = equation_.substr(0, arrow);
    for (std::size_t begin = 0;;) {
      auto comma = left.find(',', begin);
      inputs_.push_back(subscripts(left.substr(begin, comma - begin), equation_));
      if (comma == left.npos) break;
      begin = comma + 1;
    }
    if (inputs_.size() != operands_.size())
      fail("aten.einsum.default: equation `{}` names {} operands, {} are given", equation_, inputs_.size(),
           operands_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::size_t rank = steps_.meta(operands_[i]).rank(), named = inputs_[i].size();
      bool ellipsis = std::find(inputs_[i].begin(), inputs_[i].end(), kEllipsis) != inputs_[i].end();
      if (ellipsis ? rank + 1 < named : rank != named)
        fail("aten.einsum.default: equation `{}` does not fit operand {} of rank {}", equation_, i, rank);
      if (ellipsis) ellipsis_rank_ = std::max(ellipsis_rank_, rank + 1 - named);
      for (std::size_t s : inputs_[i])
        if (s != kEllipsis) ++count_[s];
    }
    if (arrow != equation_.npos) {
      output_ = subscripts(equation_.substr(arrow + 2), equation_);
      for (std::size_t s : output_)
        if (s != kEllipsis && (count_[s] == 0 || std::count(output_.begin(), output_.end(), s) > 1))
          fail("aten.einsum.default: equation `{}` has a wrong result subscript", equation_);
    } else {  // implicit: the ellipsis, then what occurs once, in alphabetical order
      if (ellipsis_rank_ > 0) output_.push_back(kEllipsis);
      for (std::size_t s = 0; s < kLetters; ++s)
        if (count_[s] == 1) output_.push_back(s);
    }
  }

  /// Result dimensions first, then an ellipsis that is summed, then the other summed ones.
  void order_dimensions() {
    position_.fill(-1);
    std::int64_t next = 0;
    bool has_ellipsis = false;
    for (std::size_t s : output_) {
      if (s == kEllipsis) {
        ellipsis_at_ = next;
        next += static_cast<std::int64_t>(ellipsis_rank_);
        has_ellipsis = true;
      } else {
        position_[s] = next++;
      }
    }
    results_ = static_cast<std::size_t>(next);
    if (!has_ellipsis) {
      ellipsis_at_ = next;
      next += static_cast<std::int64_t>(ellipsis_rank_);
    }
    for (std::size_t s = 0; s < kLetters; ++s)
      if (count_[s] > 0 && position_[s] < 0) position_[s] = next++;
    rank_ = static_cast<std::size_t>(next);
  }

  /// Brings an operand to all dimensions in order, repeated subscripts by their diagonal, missing ones as size 1.
  void align(std::size_t i) {
    Value operand = operands_[i];
    std::vector<std::int64_t> source(rank_, -1);  // dimension of the operand at each position
    std::size_t rank = steps_.meta(operand).rank(), own_ellipsis = rank + 1 - inputs_[i].size();
    std::size_t dim = 0;
    for (std::size_t s : inputs_[i]) {
      if (s == kEllipsis) {
        std::size_t lead = ellipsis_rank_ - own_ellipsis;
        for (std::size_t k = 0; k < own_ellipsis; ++k)
          source[static_cast<std::size_t>(ellipsis_at_) + lead + k] = static_cast<std::int64_t>(dim++);
        continue;
      }
      auto& at = source[static_cast<std::size_t>(position_[s])];
      if (at < 0) {
        at = static_cast<std::int64_t>(dim++);
        continue;
      }
      operand = call("aten.diagonal.default", {operand, 0, at, static_cast<std::int64_t>(dim)});
      std::int64_t last = static_cast<std::int64_t>(steps_.meta(operand).rank()) - 1;
      std::vector<std::size_t> order;  // the diagonal comes last; put it where the subscript stood first
      for (std::int64_t d = 0; d < last; ++d) {
        if (d == at) order.push_back(static_cast<std::size_t>(last));
        order.push_back(static_cast<std::size_t>(d));
      }
      if (at == last) order.push_back(static_cast<std::size_t>(last));
      operand = call("aten.permute.default", {operand, ints(order)});
    }
    rank = steps_.meta(operand).rank();
    std::vector<std::size_t> order;
    for (std::int64_t& at : source) {
      if (at < 0) {
        operand = call("aten.unsqueeze.default", {operand, static_cast<std::int64_t>(rank)});
        at = static_cast<std::int64_t>(rank++);
      }
      order.push_back(static_cast<std::size_t>(at));
    }
    aligned_.push_back(call("aten.permute.default", {operand, ints(order)}));
  }

  Value contract() {
    std::vector<int> uses(rank_, 0);
    for (const Value& operand : aligned_)
      for (std::size_t d = results_; d < rank_; ++d) uses[d] += !unit(operand, d);
    Value result = aligned_[0];
    for (std::size_t i = 1; i < aligned_.size(); ++i) {
      Value other = aligned_[i];
      std::vector<std::size_t> summed, only_left, only_right;
      for (std::size_t d = results_; d < rank_; ++d) {
        if (!unit(result, d) && !unit(other, d)) {
          if (--uses[d] == 1) summed.push_back(d), uses[d] = 0;
        } else if (uses[d] == 1) {
          if (!unit(result, d))
            only_left.push_back(d), uses[d] = 0;
          else if (!unit(other, d))
            only_right.push_back(d), uses[d] = 0;
        }
      }
      if (!only_left.empty()) result = call("aten.sum.dim_IntList", {result, ints(only_left), true});
      if (!only_right.empty()) other = call("aten.sum.dim_IntList", {other, ints(only_right), true});
      result = product(result, other, summed);
    }
    if (rank_ == results_) return result;
    if (aligned_.size() == 1) {
      std::vector<std::size_t> rest;
      for (std::size_t d = results_; d < rank_; ++d) rest.push_back(d);
      return call("aten.sum.dim_IntList", {result, ints(rest)});
    }
    Exprs sizes = steps_.meta(result).sizes;
    sizes.resize(results_);
    return call("aten.view.default", {result, sizes});
  }

  /// `sumproduct_pair`: one batched matrix product, summed dimensions kept as 1.
  Value product(const Value& left, const Value& right, const std::vector<std::size_t>& summed) {
    if (summed.empty()) return call("aten.mul.Tensor", {left, right});
    const Exprs a = steps_.meta(left).sizes, b = steps_.meta(right).sizes;
    std::vector<std::size_t> batch, rows, columns;
    Expr batch_size = 1, row_size = 1, column_size = 1, sum_size = 1;
    for (std::size_t d = 0; d < rank_; ++d) {
      bool in_left = !unit(left, d), in_right = !unit(right, d);
      if (std::find(summed.begin(), summed.end(), d) != summed.end())
        sum_size *= a[d];
      else if (in_left && in_right)
        batch.push_back(d), batch_size *= a[d];
      else if (in_left)
        rows.push_back(d), row_size *= a[d];
      else
        columns.push_back(d), column_size *= b[d];
    }
    auto joined = [](std::initializer_list<const std::vector<std::size_t>*> parts) {
      std::vector<std::size_t> all;
      for (auto* part : parts) all.insert(all.end(), part->begin(), part->end());
      return all;
    };
    auto left_order = joined({&batch, &rows, &summed, &columns}),
         right_order = joined({&batch, &summed, &columns, &rows});
    Exprs sizes;
    for (std::size_t d : batch) sizes.push_back(a[d]);
    for (std::size_t d : rows) sizes.push_back(a[d]);
    sizes.resize(sizes.size() + summed.size(), 1);
    for (std::size_t d : columns) sizes.push_back(b[d]);
    std::vector<std::size_t> back(rank_);
    for (std::size_t i = 0; i < rank_; ++i) back[left_order[i]] = i;
    Value l = call("aten.reshape.default",
                   {call("aten.permute.default", {left, ints(left_order)}), Exprs{batch_size, row_size, sum_size}});
    Value r = call("aten.reshape.default", {call("aten.permute.default", {right, ints(right_order)}),
                                            Exprs{batch_size, sum_size, column_size}});
    Value p = call("aten.view.default", {call("aten.bmm.default", {l, r}), sizes});
    return call("aten.permute.default", {p, ints(back)});
  }

  bool unit(const Value& operand, std::size_t d) const { return steps_.meta(operand).sizes[d].is_constant(1); }
  Value call(std::string_view target, Values args) const { return steps_.call(target, std::move(args)); }

  std::string_view equation_;
  const Values& operands_;
  const Steps& steps_;
  std::vector<std::vector<std::size_t>> inputs_;
  std::vector<std::size_t> output_;
  std::array<int, kLetters> count_{};
  std::array<std::int64_t, kLetters> position_{};
  std::size_t ellipsis_rank_ = 0, rank_ = 0, results_ = 0;
  std::int64_t ellipsis_at_ = 0;
  Values aligned_;
};

bool has(const std::vector<std::size_t>& list, std::size_t s) { return std::ranges::find(list, s) != list.end(); }

bool is_plain(const std::vector<std::size_t>& list) {
  return !has(list, kEllipsis) &&
         std::ranges::all_of(list, [&](std::size_t s) { return std::ranges::count(list, s) == 1; });
}

/// Where each of `wanted` stands in `list`.
std::vector<std::size_t> order_of(const std::vector<std::size_t>& wanted, const std::vector<std::size_t>& list) {
  std::vector<std::size_t> order;
  for (std::size_t s : wanted) order.push_back(static_cast<std::size_t>(std::ranges::find(list, s) - list.begin()));
  return order;
}

}  // namespace

std::optional<MatrixProduct> matrix_product(std::string_view equation) {
  const auto arrow = equation.find("->"), comma = equation.find(',');
  if (arrow == equation.npos || comma == equation.npos || equation.find(',', comma + 1) != equation.npos) return {};
  const auto left = subscripts(equation.substr(0, comma), equation),
             right = subscripts(equation.substr(comma + 1, arrow - comma - 1), equation),
             result = subscripts(equation.substr(arrow + 2), equation);
  if (!is_plain(left) || !is_plain(right) || !is_plain(result)) return {};
  std::vector<std::size_t> batch, rows, columns, summed;
  for (std::size_t s : result) {
    if (!has(left, s) && !has(right, s)) return {};
    (has(left, s) && has(right, s) ? batch : has(left, s) ? rows : columns).push_back(s);
  }
  for (std::size_t s : left)
    if (!has(result, s)) summed.push_back(s);
  const bool all_named = std::ranges::all_of(right, [&](std::size_t s) { return has(result, s) || has(left, s); });
  if (batch.empty() || rows.size() != 1 || columns.size() != 1 || summed.size() != 1 || !all_named ||
      !has(right, summed[0]) || std::ranges::find(result, columns[0]) < std::ranges::find(result, rows[0]))
    return {};
  const auto with = [&](std::size_t a, std::size_t b) {
    std::vector<std::size_t> all = batch;
    all.insert(all.end(), {a, b});
    return all;
  };
  MatrixProduct p;
  p.left = order_of(with(rows[0], summed[0]), left);
  p.turned = std::ranges::find(right, columns[0]) < std::ranges::find(right, summed[0]);
  p.right = order_of(p.turned ? with(columns[0], summed[0]) : with(summed[0], columns[0]), right);
  p.result = order_of(result, with(rows[0], columns[0]));
  return p;
}

Value einsum(std::string_view equation, const Values& operands, const Steps& steps) {
  return Contraction(equation, operands, steps).run();
}

}  // namespace coil::ops::shapes
