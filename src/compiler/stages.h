// Times the stages of a compile and logs what each made.
#pragma once
#include <chrono>

#include "coil/coil.h"
#include "support/log.h"

namespace coil {

class Stages {
 public:
  Stages(CompileReport& report, const CompileOptions& options) : report_(report), log_(LogOptions{.stages = {options.log.begin(), options.log.end()}}) {}

  template <class F>
  auto operator()(const char* name, F&& f) {
    const auto start = Clock::now();
    auto record = [&] { report_.stages.emplace_back(name, std::chrono::duration<double>(Clock::now() - start).count()); };
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      record();
    } else {
      auto result = f();
      record();
      return result;
    }
  }

  /// `text` is only called when the stage is logged.
  template <class F>
  void show(const char* stage, F&& text) {
    if (log_.enabled(stage)) log_.write(stage, text());
  }

  /// The graph after a stage; only a note where it is as it was last shown.
  template <class F>
  void show_changed(const char* stage, F&& text) {
    if (!log_.enabled(stage)) return;
    std::string now = text();
    log_.write(stage, now == shown_ ? "changed nothing" : now);
    shown_ = std::move(now);
  }

 private:
  using Clock = std::chrono::steady_clock;
  CompileReport& report_;
  Log log_;
  std::string shown_;
};

}  // namespace coil
