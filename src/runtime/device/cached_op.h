// A library operation that keeps what it prepared for the last few combinations of sizes.
#pragma once
#include <list>
#include <utility>

#include "runtime/device/library.h"

namespace coil::runtime {

/// One operation prepared for one combination of views.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual bool runs_on_host() const { return false; }
  virtual void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) = 0;
  /// What was made of operands that are the same in each call, and is kept, is made anew in the next one.
  virtual void forget_constants() {}
};

class CachedOp : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) final;
  std::size_t workspace_bytes() const final { return prepared_.front().call->workspace_bytes(); }
  bool runs_on_host() const final { return prepared_.front().call->runs_on_host(); }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) final {
    prepared_.front().call->run(inputs, outputs, workspace);
  }

 protected:
  virtual std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) = 0;

 private:
  static constexpr std::size_t kKept = 8;
  struct Entry {
    std::vector<BoundView> inputs, outputs;
    int threads;  ///< primitives divide their work when they are made
    std::unique_ptr<PreparedCall> call;
  };
  std::list<Entry> prepared_;  ///< the last used first
};

}  // namespace coil::runtime
