// cuDNN's graphs: operations on described tensors, an engine chosen for the whole, run with pointers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/driver/queue.h"
#include "runtime/cuda/driver/shared_library.h"

namespace coil::runtime::cuda {

/// The library, opened, and a handle.
class Dnn {
 public:
  explicit Dnn(CudaQueue&);
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;

  using Status = int;
  using Descriptor = void*;
  void check(Status, const char* what) const;
  CudaQueue& queue() { return queue_; }
  void* handle() const { return handle_; }
  std::size_t version() const { return version_(); }  ///< 91900 is 9.19.0

#define COIL_CUDNN(X)                                                                                    \
  X(create, "cudnnCreate", Status, (void**))                                                             \
  X(destroy, "cudnnDestroy", Status, (void*))                                                            \
  X(set_stream, "cudnnSetStream", Status, (void*, Stream))                                               \
  X(error_string, "cudnnGetErrorString", const char*, (Status))                                          \
  X(version, "cudnnGetVersion", std::size_t, ())                                                         \
  X(last_error, "cudnnGetLastErrorString", void, (char*, std::size_t))                                   \
  X(make, "cudnnBackendCreateDescriptor", Status, (int, Descriptor*))                                    \
  X(drop, "cudnnBackendDestroyDescriptor", Status, (Descriptor))                                         \
  X(finalize, "cudnnBackendFinalize", Status, (Descriptor))                                              \
  X(set, "cudnnBackendSetAttribute", Status, (Descriptor, int, int, std::int64_t, const void*))          \
  X(get, "cudnnBackendGetAttribute", Status, (Descriptor, int, int, std::int64_t, std::int64_t*, void*)) \
  X(execute, "cudnnBackendExecute", Status, (void*, Descriptor, Descriptor))
#define X(name, symbol, result, parameters) result(*name##_) parameters = nullptr;
  COIL_CUDNN(X)
#undef X

 private:
  CudaQueue& queue_;
  SharedLibrary library_;
  void* handle_ = nullptr;
  Stream stream_ = nullptr;
  bool stream_set_ = false;

  friend class DnnGraph;
  void follow_queue();
};

/// A graph under construction, then ready to run. Tensors are numbered in the order in which they are made. What the
/// library does not take while a graph is described makes `build` say no.
class DnnGraph {
 public:
  using Tensor = std::int64_t;
  explicit DnnGraph(Dnn& dnn) : dnn_(dnn) {}
  ~DnnGraph();
  DnnGraph(const DnnGraph&) = delete;
  DnnGraph& operator=(const DnnGraph&) = delete;

  /// A tensor in memory: its pointer is given to each run, in the order of these calls.
  Tensor tensor(DType, const Sizes& sizes, const Sizes& strides, std::int64_t alignment = 16);
  /// A value between operations, never in memory; its strides say in which order engines see it (none: row-major).
  Tensor between(DType, const Sizes& sizes, const Sizes& strides = {});
  /// A number that is part of the graph, seen with `rank` dimensions.
  Tensor number(float value, std::size_t rank);

  struct Convolution {
    Sizes stride, padding, padding_end, dilation;
    bool transposed = false;  ///< x, w, y are then those of the transposed convolution
  };
  void convolution(Tensor x, Tensor w, Tensor y, const Convolution&);
  /// The gradient of the weight of a convolution that is not transposed.
  void weight_gradient(Tensor x, Tensor dy, Tensor dw, const Convolution&);
  /// Modes are cudnnPointwiseMode_t.
  void pointwise(int mode, Tensor x, Tensor y);
  void pointwise(int mode, Tensor x, Tensor b, Tensor y);
  void select(Tensor condition, Tensor x, Tensor b, Tensor y);
  void index(Tensor x, Tensor y, std::int64_t axis);
  void product(Tensor a, Tensor b, Tensor c);
  /// y is x in another order.
  void reshape(Tensor x, Tensor y);
  void reduce(int mode, Tensor x, Tensor y);

  /// What an engine may do to numbers, and which ones are tried first.
  struct Freedom {
    bool matrix_units = true;  ///< their products, which round f32 operands to TF32
    bool narrower = true;      ///< convert operands to narrower types
    bool any_order = false;    ///< add up in an order that differs from run to run
    /// Try engines first that use matrix units: in 16 bits the library's list may begin with one that does not, and
    /// takes many times as long.
    bool matrix_units_first = false;
  };
  /// Chooses an engine, of those that may take the graph the first behind `skipped` ones. False when there is none
  /// (`why` then says what the library said last).
  bool build(const Freedom&, int skipped = 0);
  const std::string& why() const { return why_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  void run(std::span<const void* const> pointers, void* workspace);

 private:
  using Descriptor = Dnn::Descriptor;
  Descriptor make(int type);
  void set(Descriptor, int attribute, int type, std::int64_t count, const void* values);
  template <class T>
  void set(Descriptor d, int attribute, int type, const T& value) {
    set(d, attribute, type, 1, &value);
  }
  void connect(Descriptor operation, int attribute, Tensor);
  void finish(Descriptor);
  Tensor add_tensor(DType, const Sizes& sizes, const Sizes& strides, std::int64_t alignment, bool is_virtual,
                    bool by_value);
  Descriptor pointwise_operation(int mode);
  /// Connects what an operation before or after the product reads, and notes it where it is in memory.
  void read_beside(Descriptor, int attribute, Tensor);
  void write(Descriptor, int attribute, Tensor);
  void note(std::vector<std::size_t>& places, Tensor) const;
  std::vector<ByteRange> ranges(std::span<const std::size_t> places, std::span<const void* const> pointers) const;
  void wait_for_operands(std::span<const void* const> pointers);
  Descriptor convolution_kind(const Convolution&);
  void set_factors(Descriptor, int alpha, int beta);
  /// Takes the first engine of a list that `freedom_` allows behind those that are to be skipped; of those alone that
  /// use matrix units, or do not, where that is asked.
  bool try_mode(Descriptor graph, int mode, std::optional<bool> on_matrix_units);
  bool try_config(Descriptor config, std::optional<bool> on_matrix_units);

  Dnn& dnn_;
  std::vector<Descriptor> owned_, tensors_, operations_;
  std::vector<std::int64_t> in_memory_, numbers_;  ///< ids
  std::vector<float> number_values_;
  std::vector<const void*> last_;  ///< the pointers that `pack_` holds
  const void* last_workspace_ = nullptr;
  Descriptor plan_ = nullptr, pack_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::string why_;
  int precision_ = 0;  ///< what operations compute in: cudnnDataType_t
  Freedom freedom_;
  int to_skip_ = 0;                            ///< engines, before one is taken
  std::vector<std::size_t> bytes_;             ///< from the first to the last element of each in memory
  std::vector<std::size_t> beside_, written_;  ///< places among those in memory
  bool taken_ = true;                          ///< what was described so far
  bool refused(const char* step);
};

/// cudnnPointwiseMode_t and cudnnReduceTensorOp_t.
inline constexpr int kDnnAdd = 0, kDnnMul = 1, kDnnDiv = 6, kDnnSub = 9, kDnnExp = 13, kDnnLog = 15, kDnnIdentity = 21,
                     kDnnRelu = 100, kDnnTanh = 101, kDnnSigmoid = 102, kDnnSwish = 106, kDnnGreaterEqual = 303;
inline constexpr int kDnnReduceAdd = 0, kDnnReduceMax = 3;

}  // namespace coil::runtime::cuda
