// A package for torch, loaded: the program, its weights, and contexts that calls take turns on.
#pragma once
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "runtime/aoti/weights.h"

namespace coil::runtime::aoti {

class Container {
 public:
  /// `runners`: how many calls may run at once; one where the program has states. `device` as torch writes it: `cpu`,
  /// `cuda`, `cuda:1`; without an index the current one. `folder` holds the package's files. Throws Error.
  Container(std::size_t runners, const std::string& device, const std::filesystem::path& folder);

  /// One call. Input handles are the container's from now on, whatever happens; output handles are the caller's.
  /// `alone`: no other call is running.
  void run(AtenTensorHandle* inputs, std::size_t input_count, AtenTensorHandle* outputs, std::size_t output_count,
           void* stream, bool alone);

  const TorchInterface& interface() const { return interface_; }
  std::size_t input_count() const { return interface_.inputs.size(); }
  std::size_t output_count() const { return interface_.leaves.size(); }
  const std::string& input_name(std::size_t i) const { return input_names_.at(i); }
  const std::string& output_name(std::size_t i) const { return output_names_.at(i); }

  /// `change(weights)` while nothing runs.
  template <class F>
  auto change_weights(F&& change) {
    const std::unique_lock no_runs(runs_);
    wait_for_runs();
    return change(*weights_);
  }
  const Weights& weights() const { return *weights_; }

 private:
  struct Runner {
    std::shared_ptr<const Model> model;
    std::unique_ptr<Context> context;
    std::vector<Tensor> inputs, outputs;
  };
  class Turn;

  void name_ports();
  void take_inputs(Runner&, std::vector<TensorHandle>) const;
  void run_on(Runner&, std::vector<TensorHandle> inputs, AtenTensorHandle* outputs, void* stream);
  void wait_for_runs();
  std::uint64_t new_seed() const;

  TorchInterface interface_;
  std::unique_ptr<Weights> weights_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<std::int64_t> input_of_;  ///< for each of the plan's inputs its place in calls; -1: none
  bool draws_ = false;                  ///< has random operators
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> free_;
  std::mutex free_mutex_;
  std::condition_variable freed_;
  std::shared_mutex runs_;  ///< shared by those that run
};

}  // namespace coil::runtime::aoti
