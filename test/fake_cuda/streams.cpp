#include "streams.h"

#include <algorithm>

namespace coil::fake_cuda {

FakeStream& Streams::default_stream(int device) {
  FakeStream& s = defaults_[device];
  s.device = device;
  return s;
}

Result Streams::submit(FakeStream& stream, std::function<void()> run) {
  if (stream.capture) {
    if (stream.capture->invalid) return kCaptureInvalidated;
    auto& nodes = stream.capture->nodes;
    nodes.push_back({std::move(run), stream.frontier});
    stream.frontier = {nodes.size() - 1};
    return kDone;
  }
  std::set<std::uint64_t> after = stream.after;
  FakeStream& common = default_stream(stream.device);
  if (&stream == &common) {
    for (FakeStream* s : streams_)
      if (s->device == stream.device && s->blocking) {
        if (s->capture)
          return s->capture->invalid = true, kCaptureUnsupported;  // the default stream would wait for what is not run
        after.insert(s->after.begin(), s->after.end());
      }
  } else if (stream.blocking) {
    after.insert(common.after.begin(), common.after.end());
  }
  queued_.emplace(next_, Work{std::move(run), std::move(after)});
  {
    const std::lock_guard lock(unfinished_mutex_);
    unfinished_.insert(next_);
  }
  stream.after = {next_++};
  return kDone;
}

Result Streams::record(FakeEvent& event, FakeStream& stream) {
  event = {stream.after, stream.capture, stream.frontier};
  return kDone;
}

Result Streams::wait(FakeStream& stream, const FakeEvent& event) {
  if (!stream.capture && !event.capture) {
    stream.after.insert(event.after.begin(), event.after.end());
    return kDone;
  }
  if (!event.capture || (stream.capture && stream.capture != event.capture))
    return stream.capture->invalid = true, kCaptureIsolation;
  if (!stream.capture) stream.capture = event.capture, stream.origin = false, stream.frontier.clear();
  stream.frontier.insert(event.nodes.begin(), event.nodes.end());
  return kDone;
}

void Streams::finish(std::set<std::uint64_t> wanted) {
  std::mt19937 random(machine_.seed++);
  while (std::any_of(wanted.begin(), wanted.end(), [&](std::uint64_t id) { return queued_.contains(id); })) {
    std::vector<std::uint64_t> ready;
    for (auto& [id, work] : queued_)
      if (std::none_of(work.after.begin(), work.after.end(), [&](std::uint64_t d) { return queued_.contains(d); }))
        ready.push_back(id);
    const std::uint64_t chosen = ready.at(random() % ready.size());
    machine_.overtaken += chosen != ready.front();
    auto run = std::move(queued_.at(chosen).run);
    run();
    queued_.erase(chosen);
    const std::lock_guard lock(unfinished_mutex_);
    unfinished_.erase(chosen);
  }
}

Result Streams::synchronize(FakeStream& stream) {
  if (stream.capture) return stream.capture->invalid = true, kCaptureUnsupported;
  finish(stream.after);
  return kDone;
}

Result Streams::synchronize(const FakeEvent& event) {
  if (event.capture) return kCaptureUnsupported;
  finish(event.after);
  return kDone;
}

bool Streams::is_done(const FakeEvent& event) const {
  const std::lock_guard lock(unfinished_mutex_);
  return std::ranges::none_of(event.after, [&](std::uint64_t id) { return unfinished_.contains(id); });
}

void Streams::synchronize_all() {
  std::set<std::uint64_t> all;
  for (auto& [id, work] : queued_) all.insert(id);
  finish(all);
}

Result Streams::begin_capture(FakeStream& stream) {
  if (stream.capture || &stream == &default_stream(stream.device)) return kCaptureUnsupported;
  stream.capture = std::make_shared<Capture>();
  stream.capture->thread = std::this_thread::get_id();
  stream.origin = true;
  stream.frontier.clear();
  captures_.push_back(stream.capture);
  return kDone;
}

Result Streams::end_capture(FakeStream& stream, std::unique_ptr<FakeGraph>& graph) {
  if (!stream.capture || !stream.origin) return kCaptureUnmatched;
  const std::shared_ptr<Capture> capture = stream.capture;
  // What the first stream comes after, through all the nodes in between.
  std::set<std::size_t> joined;
  std::vector<std::size_t> open(stream.frontier.begin(), stream.frontier.end());
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (joined.insert(n).second)
      open.insert(open.end(), capture->nodes[n].after.begin(), capture->nodes[n].after.end());
  }
  for (FakeStream* s : streams_)
    if (s->capture == capture) s->capture.reset(), s->origin = false, s->frontier.clear();
  if (capture->invalid) return kCaptureInvalidated;
  if (joined.size() != capture->nodes.size()) return kCaptureUnjoined;
  graph = std::make_unique<FakeGraph>(FakeGraph{std::move(capture->nodes)});
  return kDone;
}

Result Streams::launch(const FakeGraph& graph, FakeStream& stream) {
  return submit(stream, [this, nodes = graph.nodes] {
    std::mt19937 random(machine_.seed++);
    std::vector<bool> done(nodes.size());
    for (std::size_t count = 0; count < nodes.size(); ++count) {
      std::vector<std::size_t> ready;
      for (std::size_t n = 0; n < nodes.size(); ++n)
        if (!done[n] && std::ranges::all_of(nodes[n].after, [&](std::size_t d) { return done[d]; })) ready.push_back(n);
      const std::size_t chosen = ready.at(random() % ready.size());
      machine_.overtaken += chosen != ready.front();
      nodes[chosen].run();
      done[chosen] = true;
    }
  });
}

Result Streams::forbidden_in_capture() {
  for (auto& weak : captures_)
    if (auto capture = weak.lock(); capture && capture->thread == std::this_thread::get_id()) {
      const bool live =
          std::any_of(streams_.begin(), streams_.end(), [&](FakeStream* s) { return s->capture == capture; });
      if (live) return capture->invalid = true, kCaptureUnsupported;
    }
  return kDone;
}

}  // namespace coil::fake_cuda
