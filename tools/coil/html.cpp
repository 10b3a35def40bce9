#include "html.h"

#include <algorithm>

#include "support/error.h"

namespace coil::cli {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2430; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
pre { background: #f4f6f8; padding: .8rem; overflow-x: auto; font-size: 12.5px; line-height: 1.35; }
code { font-size: 13px; } svg { width: 100%; height: auto; } .quiet { color: #69727f; }
)";

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

std::string human(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024.0);
  return fmt::format("{:.1f} MiB", bytes / 1048576.0);
}

std::string row(std::string_view name, std::string_view value) { return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value)); }

/// Steps to the right, live bytes upwards; one column a step, with the figure as its tooltip.
std::string memory_chart(const std::vector<std::uint64_t>& live, const std::vector<std::string>& steps) {
  constexpr double kWidth = 900, kHeight = 220, kLeft = 80, kBottom = 20;
  std::uint64_t peak = std::max<std::uint64_t>(1, live.empty() ? 1 : *std::max_element(live.begin(), live.end()));
  double column = (kWidth - kLeft) / std::max<std::size_t>(1, live.size());
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"live bytes at each step\">\n", kWidth, kHeight + kBottom);
  for (int quarter = 0; quarter <= 4; ++quarter) {
    double y = kHeight - quarter * (kHeight - 10) / 4;
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#d8dde3\"/>", kLeft, kWidth, y, y);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-size=\"11\" text-anchor=\"end\" fill=\"#69727f\">{}</text>\n", kLeft - 6, y + 4, human(peak * quarter / 4));
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    double height = static_cast<double>(live[i]) / static_cast<double>(peak) * (kHeight - 10);
    svg += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>{}: {}</title></rect>\n", kLeft + i * column, kHeight - height, std::max(0.5, column * 0.92), height,
                       live[i] == peak ? "#c2410c" : "#3b6ea5", escape(steps[i]), human(live[i]));
  }
  return svg + fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#69727f\">step 0 to {}</text>\n</svg>\n", kLeft, kHeight + 15, live.empty() ? 0 : live.size() - 1);
}

std::string describe(const runtime::Plan& plan, const runtime::Step& step) {
  if (auto* call = std::get_if<runtime::KernelCall>(&step)) return plan.kernels.at(call->kernel).symbol;
  if (auto* call = std::get_if<runtime::ExternCall>(&step)) return "library: " + call->op;
  if (auto* call = std::get_if<runtime::HostCall>(&step)) return "fallback: " + call->op;
  return "assert: " + std::get<runtime::AssertCall>(step).message;
}

}  // namespace

std::string html_page(const std::string& title, const runtime::Program& program, const CompileReport& report) {
  const std::vector<std::uint64_t>& live = report.live_bytes;
  const runtime::Plan& plan = program.plan;
  std::vector<std::string> steps;
  for (const runtime::Step& step : plan.steps) steps.push_back(describe(plan, step));

  std::string page = fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>\n<body><h1>{0}</h1>\n", escape(title), kStyle);
  page += "<table>\n" + row("device", to_string(plan.device)) + row("kernels", std::to_string(plan.kernels.size())) + row("steps", std::to_string(plan.steps.size())) +
          row("library calls", std::to_string(report.extern_calls)) + row("weights", human(report.weight_bytes)) +
          row("peak of temporaries and outputs", human(live.empty() ? 0 : *std::max_element(live.begin(), live.end()))) + "</table>\n";
  page += "<h2>Compile time</h2>\n<table>\n";
  for (const auto& [stage, seconds] : report.stages) page += row(stage, fmt::format("{:.1f} ms", seconds * 1e3));
  page += row("all", fmt::format("{:.1f} ms", report.seconds * 1e3)) + "</table>\n";
  page += "<h2>Memory over time</h2>\n<p class=\"quiet\">Temporaries and outputs that are live at each step; the peak in red.</p>\n" + memory_chart(live, steps);
  page += "<h2>Steps</h2>\n<details><summary>" + std::to_string(steps.size()) + " steps</summary><ol start=\"0\">\n";
  for (const std::string& step : steps) page += "<li><code>" + escape(step) + "</code></li>\n";
  page += "</ol></details>\n<h2>Kernels</h2>\n";
  for (const runtime::Kernel& kernel : plan.kernels) page += fmt::format("<h3><code>{}</code></h3>\n<pre>{}</pre>\n", escape(kernel.symbol), escape(kernel.description));
  if (!program.kernel_source.empty()) page += "<details><summary>Source of all kernels</summary><pre>" + escape(program.kernel_source) + "</pre></details>\n";
  page += "<h2>Report</h2>\n<pre>" + escape(report.text) + "</pre>\n</body></html>\n";
  return page;
}

}  // namespace coil::cli
