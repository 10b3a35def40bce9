// Streams, events and captures of the fake driver: work waits for what it must wait for, and otherwise runs when
// somebody waits for it, in an order drawn at random.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "fake_cuda.h"

namespace coil::fake_cuda {

using Result = int;
inline constexpr Result kDone = 0, kInvalidValue = 1, kMemoryOut = 2, kInvalidContext = 201, kNoBinary = 209,
                        kUnsupportedPtx = 222, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600,
                        kNotSupported = 801, kIllegalAddress = 700, kCaptureUnsupported = 900,
                        kCaptureInvalidated = 901, kCaptureUnmatched = 903, kCaptureUnjoined = 904,
                        kCaptureIsolation = 905;

struct GraphNode {
  std::function<void()> run;
  std::set<std::size_t> after;
};

/// Work between the begin and the end of a capture.
struct Capture {
  std::vector<GraphNode> nodes;
  std::thread::id thread;
  bool invalid = false;
};

struct FakeStream {
  int device = 0;
  bool blocking = true;           ///< keeps order with the default stream
  std::set<std::uint64_t> after;  ///< what its next work waits for
  std::shared_ptr<Capture> capture;
  bool origin = false;             ///< the capture began here
  std::set<std::size_t> frontier;  ///< nodes that its next node waits for
  std::vector<void*> shown;        ///< the frontier as it was told last
};

struct FakeEvent {
  std::set<std::uint64_t> after;
  std::shared_ptr<Capture> capture;
  std::set<std::size_t> nodes;
  double at = 0;  ///< of the machine's clock when it was recorded last
};

struct FakeGraph {
  std::vector<GraphNode> nodes;
};

class Streams {
 public:
  explicit Streams(Machine& machine) : machine_(machine) {}
  ~Streams() {
    for (FakeStream* s : streams_) delete s;  // those that nobody destroyed
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  /// Queues work; null: the default stream of a device.
  Result submit(FakeStream&, std::function<void()>);
  Result record(FakeEvent&, FakeStream&);
  Result wait(FakeStream&, const FakeEvent&);
  Result synchronize(FakeStream&);
  Result synchronize(const FakeEvent&);
  /// Also while another thread has work done.
  bool is_done(const FakeEvent&) const;
  void synchronize_all();
  Result begin_capture(FakeStream&);
  Result end_capture(FakeStream&, std::unique_ptr<FakeGraph>&);
  Result launch(const FakeGraph&, FakeStream&);
  /// What may not happen while this thread captures: the capture is spoilt.
  Result forbidden_in_capture();
  FakeStream& default_stream(int device);
  void add(FakeStream* s) { streams_.insert(s); }
  void remove(FakeStream* s) { streams_.erase(s); }
  bool knows(FakeStream* s) const { return streams_.contains(s); }

 private:
  struct Work {
    std::function<void()> run;
    std::set<std::uint64_t> after;
  };
  void finish(std::set<std::uint64_t> wanted);

  Machine& machine_;
  std::map<std::uint64_t, Work> queued_;  ///< by age
  mutable std::mutex unfinished_mutex_;
  std::set<std::uint64_t> unfinished_;  ///< the same work, for `is_done`
  std::uint64_t next_ = 1;
  std::set<FakeStream*> streams_;
  std::map<int, FakeStream> defaults_;
  std::vector<std::weak_ptr<Capture>> captures_;
};

}  // namespace coil::fake_cuda
