#include "compiler/streams_text.h"

#include <algorithm>

#include "compiler/report.h"
#include "passes/wrapper/overlap_collectives.h"
#include "support/error.h"

namespace coil {
namespace {

using wrapper::StreamEntry;

constexpr std::size_t kColumnWidth = 34, kMostRows = 400;
constexpr double kStreamMicroseconds = 1e6;

std::string stream_name(const wrapper::Program& p, std::size_t line) {
  const wrapper::Line& l = p.lines[line];
  if (const auto* call = std::get_if<wrapper::CallKernel>(&l)) return p.kernels.at(call->kernel).symbol;
  if (const auto* call = std::get_if<wrapper::CallFallback>(&l)) return call->op;
  if (const auto* call = std::get_if<wrapper::CallUserKernel>(&l)) return call->kernel->name;
  const auto* call = std::get_if<wrapper::CallExtern>(&l);
  if (!call || call->outputs.empty()) return call ? call->op : "";
  const std::string more = call->outputs.size() > 1 ? fmt::format(" and {} more", call->outputs.size() - 1) : "";
  return fmt::format("{} {}{}", call->op, p.buffers[call->outputs[0].buffer].name, more);
}

/// Calls of the program with nothing beginning beside them are one row.
struct StreamRow {
  double begin = 0, end = 0;
  std::size_t column = 0, more = 0;
  std::string name;
};

class StreamColumns {
 public:
  StreamColumns(const wrapper::Program& p, const std::vector<StreamEntry>& entries) : names_{"program"} {
    for (const StreamEntry& e : entries) {
      const std::size_t column = column_of(e.group);
      if (column == 0 && !rows_.empty() && rows_.back().column == 0) {
        rows_.back().end = e.end;
        ++rows_.back().more;
        continue;
      }
      rows_.push_back({e.begin, e.end, column, 0, stream_name(p, e.line)});
    }
  }

  std::string print() const {
    std::string text = fmt::format("  {:>10}", "us");
    for (const std::string& name : names_) text += fmt::format("  {:<{}}", name, kColumnWidth);
    text += "\n";
    for (std::size_t k = 0; k < std::min(kMostRows, rows_.size()); ++k) text += row(k);
    if (rows_.size() > kMostRows) text += fmt::format("  and {} more rows\n", rows_.size() - kMostRows);
    return text;
  }

 private:
  std::size_t column_of(const std::string& group) {
    if (group.empty()) return 0;
    const std::string name = "group " + group;
    const auto found = std::find(names_.begin() + 1, names_.end(), name);
    if (found == names_.end()) return names_.push_back(name), names_.size() - 1;
    return static_cast<std::size_t>(found - names_.begin());
  }

  std::string row(std::size_t k) const {
    const StreamRow& r = rows_[k];
    std::string text = fmt::format("  {:10.1f}", r.begin * kStreamMicroseconds);
    for (std::size_t c = 0; c < names_.size(); ++c) {
      std::string cell;
      if (c == r.column)
        cell = r.more == 0 ? r.name : fmt::format("{} and {} calls more", r.name, r.more);
      else if (std::any_of(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(k),
                           [&](const StreamRow& other) { return other.column == c && other.end > r.begin; }))
        cell = "|";
      text += fmt::format("  {:<{}}", cell.size() > kColumnWidth ? cell.substr(0, kColumnWidth - 3) + "..." : cell,
                          kColumnWidth);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  std::vector<std::string> names_;  ///< of columns
  std::vector<StreamRow> rows_;
};

}  // namespace

std::string streams_text(const wrapper::Program& p, const target::Costs& costs) {
  const std::vector<StreamEntry> entries = wrapper::exchange_streams(p, costs);
  if (entries.empty()) return {};
  std::string text = "Streams side by side, by the model of costs\n";
  if (const auto& order = p.exchange_order)
    text += fmt::format(
        "  {:.1f} us, {:.1f} as written; {} exchanges of several tensors; temporaries and results peak at {}, {}\n",
        order->seconds * kStreamMicroseconds, order->written_seconds * kStreamMicroseconds, order->buckets,
        human_bytes(order->peak), human_bytes(order->written_peak));
  for (const wrapper::ChunkNote& note : p.chunk_notes)
    text += note.chunks > 1 ? fmt::format("  {} in {} chunks\n", note.what, note.chunks)
                            : fmt::format("  {} in one piece: {}\n", note.what, note.reason);
  return text + StreamColumns(p, entries).print();
}

}  // namespace coil
