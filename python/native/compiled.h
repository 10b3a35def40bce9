// A compiled graph as Python calls it: a list of torch tensors and numbers in, a tuple out.
#pragma once
#include <nanobind/nanobind.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coil/coil.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"
#include "support/out_of_memory.h"

namespace coil::python {

namespace nb = nanobind;

enum class InputKind : std::uint8_t {
  Tensor,
  Int,
  Bool,
  Float,
  None,
  Lazy,    ///< a tensor whose values torch may have put off to negate or to conjugate
  Any,     ///< a tensor or a Python number
  Frozen,  ///< the program holds a constant in its place: no input of it
};
enum class ResultKind : std::uint8_t {
  Constant,  ///< always this object
  Input,     ///< the very object that came in
  Computed,  ///< what the program returns at `index`
  Float,     ///< the number that lies there, as Python's own
};
struct Result {
  ResultKind kind = ResultKind::Constant;
  std::size_t index = 0;
  nb::object constant;
};

/// How a call's Python objects map to the program's inputs and outputs.
struct CallPattern {
  std::vector<InputKind> inputs;
  std::vector<Result> results;
  std::map<std::string, nb::object> constants;  ///< the torch tensors of the program's constants, by name
  nb::object before;              ///< called with a call's inputs before anything is done with them, if it is there
  bool torch_seed = false;        ///< random operators follow torch's default generator, not the model's own
  std::set<std::size_t> on_host;  ///< outputs of the program that torch has on the CPU, wherever the program runs
  std::set<std::size_t> views;    ///< results of the program that the graph makes as views
};

/// Every input as it comes, every output of the program in order: for programs that were no torch.fx graph in this
/// process.
CallPattern plain_pattern(const runtime::Plan&);

/// A pattern as plain Python objects, which pickle, and back; of its constants only those that results of the plan are
/// views of. Throws Error for a tuple that is none of this plan.
nb::tuple pattern_to_python(const CallPattern&, const runtime::Plan&);
CallPattern pattern_from_python(nb::tuple, const runtime::Plan&);

class CompiledGraph {
 public:
  CompiledGraph(runtime::StoredProgram, CompileReport, CallPattern);
  ~CompiledGraph();

  /// One object for each input of the graph; one for each result comes back. Runs without the GIL; several threads may
  /// call at once. Results are torch tensors: new memory is Coil's own, results that lie in an input or in each other's
  /// memory are views of it. Throws Error and python_error. `lets_go`: the caller needs no argument after the call; one
  /// that nobody else refers to becomes None in `args` as soon as the run has no more use for it, so that its memory
  /// serves what comes then.
  nb::object call(PyObject** args, std::size_t count, bool lets_go = false);

  /// The same on NumPy arrays and what else has memory on the CPU; nothing of torch is needed. Numbers are 0-d arrays.
  nb::list call_arrays(nb::list arrays);

  /// Calls that repeat with the same memory are recorded as CUDA graphs; set before the first call.
  bool record = false;
  /// How many recordings each of the graph's contexts keeps, the last used.
  std::size_t recordings = runtime::kRecordedRuns;

  /// Asked before each call of a graph that exchanges values with other processes. None: the graph is to run; True: the
  /// same, in process groups that are new; another graph: that one is to run in its place.
  nb::object choose;

  /// Asked when there is no memory for a call: given the bytes that it needs, gives what the error says at its end. It
  /// raises nothing.
  nb::object advise;

  /// Where the cache of graphs keeps this one (cache_entry); empty where it was not asked.
  std::string entry;
  /// Whether it was compiled in this process, not found in the cache.
  bool compiled_here = false;

  const CallPattern& pattern() const { return pattern_; }
  std::size_t argument_count() const { return pattern_.inputs.size(); }
  const CompileReport& report() const { return report_; }
  const runtime::Exchanges& exchanges() const { return exchanges_; }
  const runtime::Plan& plan() const;
  const std::string& provenance() const { return model_->provenance(); }
  void save(const std::filesystem::path&) const;
  /// Strides of the graph's result at a position, where it is a tensor that the program computes and no size of a call
  /// changes them; else nothing.
  std::optional<std::vector<std::int64_t>> constant_strides(std::size_t result) const;
  /// Random numbers of calls from now on follow from this number.
  void seed(std::uint64_t) const;

 private:
  struct State;
  struct Lease;
  struct Source;
  struct SharedBase {
    nb::object tensor;
    DType dtype = DType::U8;
    std::optional<std::size_t> result;  ///< that it is
  };
  /// The graph that `choose` has run in this one's place; null: none.
  CompiledGraph* chosen();
  void forget_states();
  /// Runs the state's inputs; an error of memory has `advise`'s text at its end.
  void run_call(State&, bool alike) const;
  void follow_stream(State&) const;
  bool read_input(State&, std::size_t i, PyObject* object) const;
  bool find_loose(PyObject** args, State&) const;
  static nb::handle seen_as(const State&, std::size_t input, nb::handle given);
  nb::object result(State&, std::size_t k, PyObject* const* args) const;
  /// What results that share memory are views of: the one of them that is no view of the graph's and all of the memory,
  /// or, where none is, a tensor that nobody else sees.
  const SharedBase& base_of(State&, const Source&) const;

  CompileReport report_;
  CallPattern pattern_;
  std::shared_ptr<const runtime::Model> model_;
  runtime::Exchanges exchanges_;
  std::vector<Source> sources_;         ///< where the memory of each of the program's outputs comes from
  std::vector<std::size_t> arguments_;  ///< for each of the program's inputs, its place in a call
  std::vector<bool> returned_;          ///< for each argument: it is a result itself
  bool draws_ = false;                  ///< each call takes a seed from torch
  std::mutex mutex_;
  std::vector<std::unique_ptr<State>> idle_;
  std::shared_ptr<runtime::StoredProgram> saved_;
};

}  // namespace coil::python
