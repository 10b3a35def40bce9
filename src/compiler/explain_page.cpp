// `coil explain --html`: one self-contained page about what became of a program.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "coil/coil.h"
#include "compiler/memory_text.h"
#include "compiler/pipeline.h"
#include "compiler/provenance.h"
#include "compiler/report.h"
#include "compiler/streams_text.h"
#include "device/text.h"
#include "fx/text.h"
#include "library_ops/table.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/arena_planner.h"
#include "support/error.h"
#include "wrapper/comm_pools.h"

namespace coil {
namespace {

using wrapper::BufferId;

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

/// A block of memory: from the call that first needs it to the last one that does.
struct Block {
  BufferId buffer = 0;
  std::uint64_t bytes = 0, offset = 0;
  std::uint32_t first = 0, last = 0;
  std::string names;       ///< of the buffers that live in it, one after the other
  bool is_shared = false;  ///< a communication buffer, which other ranks reach; `offset` is then its place there
};

class Page {
 public:
  /// `seconds` of each call, or none.
  Page(const LoweredProgram& lowered, const CompileReport& report, std::vector<double> seconds)
      : lowered_(lowered),
        p_(lowered.lines),
        report_(report),
        calls_(provenance_calls(p_)),
        seconds_(std::move(seconds)) {
    for (std::size_t c = 0; c < calls_.size(); ++c) call_of_line_[calls_[c].line] = c;
  }

  std::string print(const std::string& title) {
    out_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta "
        "charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>\n<body>\n<header><h1>{0}</h1>"
        "<input id=\"search\" type=\"search\" placeholder=\"search nodes, kernels, buffers, lines of source\" "
        "aria-label=\"search\"><span id=\"found\"></span></header>\n",
        escape(title), device::file_text("page/style.css"));
    summary();
    memory();
    streams();
    calls();
    kernels();
    graph("before", "The graph as it came", p_.source, true);
    graph("after", "The graph after the passes", fx::node_lines(*lowered_.source.module, {.locations = true}), false);
    section("fusions", "Fused and not fused");
    out_ += "<pre class=\"item\">" + escape(fusion_text(*lowered_.graph, lowered_.schedule)) + "</pre>\n</section>\n";
    return out_ + "<script>" + std::string(device::file_text("page/script.js")) + "</script>\n</body></html>\n";
  }

 private:
  void section(std::string_view id, std::string_view title) {
    out_ += fmt::format("<section id=\"{}\"><h2>{}</h2>\n", id, title);
  }
  static std::string row(std::string_view name, std::string_view value) {
    return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value));
  }
  std::uint64_t bytes(BufferId b) const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, p_.env->hint_or(p_.buffers[b].bytes, 0)));
  }
  static std::string link(std::size_t call) { return fmt::format("<a href=\"#call{0}\">{0}</a>", call); }

  std::string devices() const {
    std::string all = to_string(p_.device);
    for (Device d : p_.others) all += ", " + to_string(d);
    return all;
  }

  /// Where a call is carried out, where that is not the program's device.
  std::string place_of(const wrapper::Line& line) const {
    if (const auto* kernel = std::get_if<wrapper::CallKernel>(&line)) {
      const std::size_t place = p_.kernels[kernel->kernel].place;
      return place == 0 ? "" : ", on " + to_string(p_.device_of(place));
    }
    const auto* call = std::get_if<wrapper::CallExtern>(&line);
    if (!call) return "";
    const std::size_t place = p_.place_of(*call);
    if (library_ops::has(call->op, library_ops::Trait::DeviceCopy)) return ", to " + to_string(p_.device_of(place));
    return place == 0 ? "" : ", on " + to_string(p_.device_of(place));
  }

  void summary() {
    section("summary", "Summary");
    const std::uint64_t live =
        report_.live_bytes.empty() ? 0 : *std::max_element(report_.live_bytes.begin(), report_.live_bytes.end());
    out_ +=
        "<table>\n" + row("device", devices()) +
        row("calls", fmt::format("{}, {} of them of libraries", calls_.size(), report_.extern_calls)) +
        row("kernels", std::to_string(p_.kernels.size())) +
        (seconds_.empty() ? ""
                          : row("calls took, on the sample inputs", fmt::format("{:.3f} ms in all", total() * 1e3))) +
        row("weights", human_bytes(report_.weight_bytes)) + row("peak of temporaries and outputs", human_bytes(live)) +
        "</table>\n<details><summary>Compile time by stage</summary><table>\n";
    for (const auto& [stage, seconds] : report_.stages) out_ += row(stage, fmt::format("{:.2f} ms", seconds * 1e3));
    out_ += "</table></details>\n</section>\n";
  }

  double total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }
  std::string time(double seconds) const {
    return fmt::format("{:.3f} ms <span class=\"quiet\">{:.1f} %</span>", seconds * 1e3,
                       total() > 0 ? 100 * seconds / total() : 0);
  }

  // ---- Memory over time ----

  std::vector<Block> blocks() const {
    std::vector<Block> blocks;
    std::map<BufferId, std::size_t> block_of;
    std::uint32_t step = 0;
    for (std::size_t l = 0; l < p_.lines.size(); ++l) {
      if (auto* a = std::get_if<wrapper::Allocate>(&p_.lines[l])) {
        block_of[a->buffer] = blocks.size();
        blocks.push_back({a->buffer, bytes(a->buffer), 0, step, step, p_.buffers[a->buffer].name});
      } else if (auto* c = std::get_if<wrapper::AllocateComm>(&p_.lines[l])) {
        block_of[c->buffer] = blocks.size();
        const auto size = static_cast<std::uint64_t>(wrapper::comm_bytes(p_, c->buffer));
        blocks.push_back(
            {c->buffer, size, static_cast<std::uint64_t>(c->offset), step, step, p_.buffers[c->buffer].name, true});
      } else if (auto* r = std::get_if<wrapper::Reuse>(&p_.lines[l])) {
        const auto from = block_of.find(r->from);  // none: an input's memory
        if (from == block_of.end()) continue;
        block_of[r->to] = from->second;
        blocks[from->second].names += ", " + p_.buffers[r->to].name;
      } else if (call_of_line_.contains(l)) {
        const wrapper::Uses uses = wrapper::uses(p_.lines[l]);
        for (const auto* side : {&uses.reads, &uses.writes})
          for (BufferId b : *side)
            if (auto found = block_of.find(b); found != block_of.end()) blocks[found->second].last = step;
        ++step;
      }
    }
    for (Block& b : blocks)
      if (p_.buffers[b.buffer].kind == wrapper::BufferKind::Output) b.last = step ? step - 1 : 0;
    place(blocks);
    return blocks;
  }

  /// Blocks of the program's own lie at the bottom, and above them what each group's ranks share, as it lies there.
  void place(std::vector<Block>& blocks) const {
    std::vector<runtime::Interval> intervals;
    for (const Block& b : blocks)
      if (!b.is_shared) intervals.push_back({b.bytes, b.first, b.last});
    const runtime::ArenaPlan plan = runtime::plan_arena(intervals);
    std::uint64_t top = 0;
    std::size_t own = 0;
    for (Block& b : blocks) {
      if (b.is_shared) continue;
      b.offset = plan.offsets[own++];
      top = std::max(top, b.offset + b.bytes);
    }
    std::map<std::string, std::uint64_t> ends;
    for (const Block& b : blocks)
      if (b.is_shared) {
        std::uint64_t& end = ends[p_.buffers[b.buffer].comm->group];
        end = std::max(end, b.offset + b.bytes);
      }
    std::map<std::string, std::uint64_t> begins;
    for (const auto& [group, end] : ends) begins[group] = std::exchange(top, top + end);
    for (Block& b : blocks)
      if (b.is_shared) b.offset += begins.at(p_.buffers[b.buffer].comm->group);
  }

  /// Calls to the right, addresses upwards: one rectangle for each block.
  void memory() {
    constexpr double kWidth = 1000, kHeight = 320, kLeft = 80;
    const std::vector<Block> all = blocks();
    std::uint64_t top = 1;
    for (const Block& b : all) top = std::max(top, b.offset + b.bytes);
    const double column = (kWidth - kLeft) / static_cast<double>(std::max<std::size_t>(1, calls_.size())),
                 scale = (kHeight - 10) / static_cast<double>(top);
    section("memory", "Memory over time");
    out_ +=
        "<p class=\"quiet\">A rectangle is a block of memory: from left to right the calls that it lives through, "
        "upwards its place. Outputs are darker; what other ranks reach is green. Sizes are those that the program was "
        "exported with.</p>\n";
    out_ +=
        fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"memory over time\">\n", kWidth, kHeight + 20);
    for (int quarter = 0; quarter <= 4; ++quarter) {
      const double y = kHeight - quarter * (kHeight - 10) / 4;
      out_ += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#d8dde3\"/><text x=\"{3}\" y=\"{4:.1f}\" "
          "font-size=\"11\" text-anchor=\"end\" fill=\"#69727f\">{5}</text>\n",
          kLeft, kWidth, y, kLeft - 6, y + 4, human_bytes(top * static_cast<std::uint64_t>(quarter) / 4));
    }
    for (const Block& b : all) {
      if (b.bytes == 0) continue;
      const double x = kLeft + b.first * column, width = std::max(1.0, (b.last - b.first + 1) * column - 1),
                   height = std::max(1.0, static_cast<double>(b.bytes) * scale - 0.5);
      const double y = kHeight - static_cast<double>(b.offset) * scale - height;
      const bool output = p_.buffers[b.buffer].kind == wrapper::BufferKind::Output;
      out_ += fmt::format(
          "<g class=\"block\" data-text=\"{5}\"><rect x=\"{0:.2f}\" y=\"{1:.2f}\" width=\"{2:.2f}\" height=\"{3:.2f}\" "
          "fill=\"{4}\"/>",
          x, y, width, height,
          output        ? "#2f5d8a"
          : b.is_shared ? "#9bc9a4"
                        : "#8fb4d8",
          escape(b.names));
      out_ +=
          fmt::format("<title>{}: {}, calls {} to {}</title>", escape(b.names), human_bytes(b.bytes), b.first, b.last);
      label(b.names, x, y, width, height, output ? "#fff" : "#1d2430");
      out_ += "</g>\n";
    }
    out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#69727f\">call 0 to {}</text>\n</svg>\n",
                        kLeft, kHeight + 15, calls_.empty() ? 0 : calls_.size() - 1);
    out_ += "<pre class=\"item\">" + escape(memory_text(p_, lowered_.source_lines)) + "</pre>\n</section>\n";
  }

  void streams() {
    const std::string text = streams_text(p_, lowered_.machine.target().costs);
    if (text.empty()) return;
    section("streams", "Calls and exchanges");
    out_ += "<pre class=\"item\">" + escape(text) + "</pre>\n</section>\n";
  }

  /// The names in a rectangle, along it or upright, or the first alone, or none where it is too small.
  void label(const std::string& names, double x, double y, double width, double height, std::string_view color) {
    for (const std::string& text : {names, names.substr(0, names.find(','))}) {
      const double length = 6.5 * static_cast<double>(text.size()) + 6;
      if (height >= 11 && width >= length) {
        out_ += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"10\" fill=\"{}\">{}</text>", x + 3,
                            y + std::min(height, 20.0) / 2 + 4, color, escape(text));
        return;
      }
      if (width >= 9 && height >= length) {
        out_ += fmt::format(
            "<text transform=\"translate({:.2f} {:.2f}) rotate(-90)\" font-size=\"{}\" fill=\"{}\">{}</text>",
            x + width / 2 + 3.5, y + height - 4, width >= 11 ? 10 : 8, color, escape(text));
        return;
      }
    }
  }

  // ---- Calls and kernels ----

  std::string buffers(const std::vector<BufferId>& ids) const {
    std::vector<std::string> parts;
    for (BufferId b : ids) {
      std::string text =
          fmt::format("{} <span class=\"quiet\">{}</span>", escape(p_.buffers[b].name), human_bytes(bytes(b)));
      if (std::find(parts.begin(), parts.end(), text) == parts.end()) parts.push_back(std::move(text));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  /// The user's lines that the nodes come from.
  std::string places(const ProvenanceCall& call) const {
    std::set<std::string> found;
    for (const std::string& o : *call.origins)
      if (auto where = lowered_.source_lines.find(o); where != lowered_.source_lines.end()) found.insert(where->second);
    if (found.empty() && !call.where->empty()) found.insert(*call.where);
    return fmt::format("{}", fmt::join(found, ", "));
  }

  void calls() {
    section("calls", "Calls");
    out_ += "<table class=\"wide\">\n<tr><th></th><th>call</th>" +
            std::string(seconds_.empty() ? "" : "<th>time</th>") +
            "<th>live</th><th>computes</th><th>from</th><th>reads</th><th>writes</th></tr>\n";
    std::size_t step = 0;
    for (std::size_t l = 0; l < p_.lines.size(); ++l) {
      auto found = call_of_line_.find(l);
      if (found == call_of_line_.end()) continue;
      const ProvenanceCall& call = calls_[found->second];
      const wrapper::Uses uses = wrapper::uses(p_.lines[l]);
      const std::string name = (call.kernel ? fmt::format("<a href=\"#{0}\"><code>{0}</code></a>", call.name)
                                            : "library <code>" + escape(call.name) + "</code>") +
                               place_of(p_.lines[l]);
      out_ += fmt::format(
          "<tr class=\"item\" id=\"call{0}\"><td>{0}</td><td>{1}</td>{7}<td "
          "class=\"bytes\">{2}</td><td>{3}</td><td>{4}</td><td>{5}</td><td>{6}</td></tr>\n",
          step, name, step < live_.size() ? human_bytes(live_[step]) : "",
          escape(fmt::format("{}", fmt::join(*call.nodes, ", "))), escape(places(call)), buffers(uses.reads),
          buffers(uses.writes),
          seconds_.empty() ? "" : "<td class=\"time\">" + time(seconds_[found->second]) + "</td>");
      ++step;
    }
    out_ += "</table>\n</section>\n";
  }

  void kernels() {
    section("kernels", "Kernels");
    for (std::size_t k = 0; k < p_.kernels.size(); ++k) {
      std::vector<std::string> users;
      std::set<std::string> nodes, where;
      double taken = 0;
      for (std::size_t c = 0; c < calls_.size(); ++c)
        if (calls_[c].kernel && calls_[c].name == p_.kernels[k].symbol) {
          users.push_back(link(c));
          nodes.insert(calls_[c].nodes->begin(), calls_[c].nodes->end());
          where.insert(places(calls_[c]));
          if (!seconds_.empty()) taken += seconds_[c];
        }
      out_ += fmt::format(
          "<details class=\"item\" id=\"{0}\"><summary><code>{0}</code> called by {1}{5}; computes {2}<br><span "
          "class=\"quiet\">{3}</span></summary><pre>{4}</pre></details>\n",
          p_.kernels[k].symbol, fmt::join(users, ", "), escape(fmt::format("{}", fmt::join(nodes, ", "))),
          escape(fmt::format("{}", fmt::join(where, "; "))), escape(p_.kernels[k].text),
          seconds_.empty() ? "" : "; " + time(taken));
    }
    out_ += "</section>\n";
  }

  // ---- Graphs ----

  void graph(std::string_view id, std::string_view title, const std::vector<std::pair<std::string, std::string>>& lines,
             bool incoming) {
    std::map<std::string, std::vector<std::string>> users;
    for (std::size_t c = 0; c < calls_.size(); ++c)
      for (const std::string& n : incoming ? *calls_[c].origins : *calls_[c].nodes) users[n].push_back(link(c));
    section(id, title);
    out_ += fmt::format(
        "<details><summary>{} nodes, each with the calls that compute it</summary><table class=\"wide code\">\n",
        lines.size());
    for (const auto& [name, text] : lines) {
      auto found = users.find(name);
      out_ += fmt::format("<tr class=\"item\"><td>{}</td><td>{}</td></tr>\n",
                          found == users.end() ? "" : fmt::format("{}", fmt::join(found->second, " ")), escape(text));
    }
    out_ += "</table></details>\n</section>\n";
  }

  const LoweredProgram& lowered_;
  const wrapper::Program& p_;
  const CompileReport& report_;
  std::vector<ProvenanceCall> calls_;
  std::vector<double> seconds_;
  std::map<std::size_t, std::size_t> call_of_line_;
  const std::vector<std::uint64_t> live_ = live_at_calls(p_);
  std::string out_;
};

}  // namespace

namespace {

/// Seconds of each call, the least of a few runs on the archive's sample inputs.
std::vector<double> measured(LoweredProgram& lowered, const CompileOptions& options, Stages& stage) {
  if (!lowered.source.sample_inputs) fail("this archive has no sample inputs to measure with");
  const std::vector<Tensor>& inputs = *lowered.source.sample_inputs;
  const auto model = runtime::Model::load(assemble(lowered.lines, lowered.machine, options, stage));
  const runtime::Plan& plan = model->plan();
  runtime::Context context(model);
  std::vector<double> least;
  for (int round = 0; round < 6; ++round) {
    std::vector<double> calls;
    const std::vector<double> steps = context.time_steps(inputs);
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (std::holds_alternative<runtime::KernelCall>(plan.steps[i]) ||
          std::holds_alternative<runtime::ExternCall>(plan.steps[i]) ||
          std::holds_alternative<runtime::HostCall>(plan.steps[i]))
        calls.push_back(steps[i]);
    if (least.empty()) least = calls;
    for (std::size_t i = 0; i < calls.size(); ++i) least[i] = std::min(least[i], calls[i]);
  }
  return least;
}

}  // namespace

std::string explain_page(const std::filesystem::path& pt2, const CompileOptions& options, bool measure) {
  CompileReport report;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(report, options);
  LoweredProgram lowered = lower_archive(pt2, options, stage, true);
  describe_program(report, lowered.lines);
  std::vector<double> seconds;
  if (measure) seconds = measured(lowered, options, stage);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return Page(lowered, report, std::move(seconds)).print(pt2.filename().string());
}

}  // namespace coil
