/* Coil's C interface: everything that a program linked with libcoil_runtime.so may call, in plain C.
 *
 * Functions that return `int` return 0 when all went well; those that return a pointer return null when it did not.
 * coil_last_error() then holds one line for the user. Nothing is ever thrown across this border. Memory belongs to
 * whoever the comment says. */
#ifndef COIL_RUNTIME_H
#define COIL_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#define COIL_C_API __attribute__((visibility("default")))
#define COIL_MAX_RANK 16

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and threads -------------------------------------------------------------------------------------------
 */

/* What the calling thread's last failure was; empty when there was none. Valid until its next call. */
COIL_C_API const char* coil_last_error(void);
COIL_C_API void coil_set_error(const char* message);
/* Messages for whoever runs the process: 0 debug (sizes bound anew, memory planned), 1 info (programs loaded), 2
 * warnings. `log` is called by the thread that has one to tell, with one line that is valid for the call; null for
 * none, as at the start. */
COIL_C_API void coil_set_log(void (*log)(int level, const char* message, void* user), void* user);
/* CPU threads of kernels and library calls; 0: all cores. */
COIL_C_API void coil_set_threads(int threads);

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

/* Element types, with the numbers that torch.export's schema gives them. */
typedef enum coil_dtype {
  COIL_U8 = 1,
  COIL_I8 = 2,
  COIL_I16 = 3,
  COIL_I32 = 4,
  COIL_I64 = 5,
  COIL_F16 = 6,
  COIL_F32 = 7,
  COIL_F64 = 8,
  COIL_C32 = 9,
  COIL_C64 = 10,
  COIL_C128 = 11,
  COIL_B8 = 12,
  COIL_BF16 = 13,
  COIL_U16 = 28,
  COIL_F8E4M3FN = 29,
  COIL_F8E5M2 = 30,
  COIL_U32 = 34,
  COIL_U64 = 35
} coil_dtype;

/* A strided window on memory: `data` is the address of its first element, strides count elements. A number is a tensor
 * of rank 0. Memory is the host's where `on_device` is 0, and that of the device that the program runs on where it is
 * 1; functions that take memory of the host only refuse the latter. */
typedef struct coil_tensor {
  void* data;
  coil_dtype dtype;
  int16_t rank, on_device;
  int64_t sizes[COIL_MAX_RANK], strides[COIL_MAX_RANK];
  void* owner; /* a block of coil_alloc's, or one that keeps memory of a device, that this tensor holds a share of; null
                  where the memory is borrowed */
} coil_tensor;

/* Lets go of a tensor's share of its memory. */
COIL_C_API void coil_tensor_release(coil_tensor*);
/* Copies elements between layouts; sizes and dtypes must be equal. */
COIL_C_API int coil_tensor_copy(const coil_tensor* to, const coil_tensor* from);

/* Memory from a pool that keeps its pages, aligned to 64 bytes. Each block counts its owners: coil_alloc makes one,
 * coil_retain one more, coil_free one less. */
COIL_C_API void* coil_alloc(size_t bytes);
COIL_C_API void* coil_retain(void*);
COIL_C_API void coil_free(void*);

/* ---- Files of tensors (safetensors) -------------------------------------------------------------------------------
 */

/* A file, mapped: writing to its tensors changes this mapping and never the file. */
typedef struct coil_file coil_file;
COIL_C_API coil_file* coil_file_open(const char* path);
COIL_C_API void coil_file_close(coil_file*);
COIL_C_API size_t coil_file_count(const coil_file*);
/* Name of tensor `index`, in order of name; valid while the file is open. */
COIL_C_API const char* coil_file_name(const coil_file*, size_t index);
/* Borrowed from the file. Fails when there is no tensor of that name. */
COIL_C_API int coil_file_find(const coil_file*, const char* name, coil_tensor* out);
/* Written aside and renamed; tensors that are not dense are written densely. */
COIL_C_API int coil_file_write(const char* path, const char* const* names, const coil_tensor* tensors, size_t count);

/* ---- What generated programs are made of --------------------------------------------------------------------------
 */

/* A generated kernel, run over [begin, end) of its parallel range. */
typedef void (*coil_kernel)(void* const* buffers, const int64_t* scalars, int64_t begin, int64_t end);
/* Runs a kernel over [0, extent) in chunks of at least `grain`, on the threads of coil_set_threads. */
COIL_C_API void coil_parallel_for(coil_kernel, void* const* buffers, const int64_t* scalars, int64_t extent,
                                  int64_t grain);
/* Python's round(x, digits), which sizes may go through. */
COIL_C_API double coil_round_decimal(double x, int64_t digits);
/* Fails when this machine lacks the instruction set (`avx2`, `avx512+avx512bf16`, ...). */
COIL_C_API int coil_require_isa(const char* isa);

/* One call site of a library operation (linear, matmul, convolution, ...; docs/library_ops.md lists them).
 * Attributes are set before the first run. One thread at a time. */
typedef struct coil_op coil_op;
COIL_C_API coil_op* coil_op_create(const char* name);
COIL_C_API void coil_op_destroy(coil_op*);
COIL_C_API void coil_op_set_int(coil_op*, const char* attribute, int64_t value);
COIL_C_API void coil_op_set_float(coil_op*, const char* attribute, double value);
COIL_C_API void coil_op_set_string(coil_op*, const char* attribute, const char* value);
COIL_C_API void coil_op_set_ints(coil_op*, const char* attribute, const int64_t* values, size_t count);
COIL_C_API void coil_op_set_floats(coil_op*, const char* attribute, const double* values, size_t count);
COIL_C_API void coil_op_set_strings(coil_op*, const char* attribute, const char* const* values, size_t count);
/* Prepares itself when sizes or strides differ from the last run's. */
COIL_C_API int coil_op_run(coil_op*, const coil_tensor* inputs, size_t input_count, const coil_tensor* outputs,
                           size_t output_count);

/* ---- Queues of a GPU, for programs written by `--emit=cpp` ----------------------------------------------------------
 */

/* Work in order on one GPU, and the kernels that it launches. One thread at a time. Functions return when their work is
 * queued, but for those that wait. */
typedef struct coil_queue coil_queue;
/* `device` is written `cuda:0`. `binaries` are `count` cubins and PTX texts of `bytes` each, of which those that the
 * device can run are loaded; `isa` is the architecture that the cubins are for, `sm_90`. Null when there is no such
 * device, or none of the binaries runs on it. */
COIL_C_API coil_queue* coil_queue_open(const char* device, const char* isa, const void* const* binaries,
                                       const size_t* bytes, size_t count);
/* As coil_queue_open, for a program that exchanges values with other processes: on the device that LOCAL_RANK tells
 * this process to use, where `device` is the first of its kind (docs/distribution.md). */
COIL_C_API coil_queue* coil_queue_open_for_rank(const char* device, const char* isa, const void* const* binaries,
                                                const size_t* bytes, size_t count);
/* Waits for its work. Operations on it are destroyed before; memory of it may be freed later. */
COIL_C_API void coil_queue_close(coil_queue*);
/* As coil_context_stay_on_device has it: work is queued on a stream of the caller's from now on; null: on the queue's
 * own. */
COIL_C_API int coil_queue_set_stream(coil_queue*, void* stream);
/* Returns when all work is done; fails where some of it failed. */
COIL_C_API int coil_queue_wait(coil_queue*);
/* Memory of the device, aligned to 256 bytes, contents undefined; `*owner` gets a block for coil_retain and coil_free.
 * It may be freed while queued work uses it, and is then used again in the queue's order. */
COIL_C_API void* coil_queue_alloc(coil_queue*, size_t bytes, void** owner);
/* Memory of the host that the device copies to while the host goes on (page-locked, where the device knows such), for
 * an operation `device_copy` that is `non_blocking`. It is freed when such copies have been waited for. */
COIL_C_API void* coil_queue_alloc_on_host(coil_queue*, size_t bytes, void** owner);
/* As coil_tensor_copy, each of the two on the device or on the host. Waits where it writes to the host. Memory of the
 * host that it reads is borrowed until the work is done where it is page-locked; other has been read when it returns.
 */
COIL_C_API int coil_queue_copy(coil_queue*, const coil_tensor* to, const coil_tensor* from);
/* Replaces a tensor on the device, whose share of its memory is let go of, by a copy on the host in memory of
 * coil_alloc, with the same strides where these leave no holes, else dense. Waits. Leaves tensors of the host as they
 * are. */
COIL_C_API int coil_queue_bring(coil_queue*, coil_tensor*);
/* Words that kernels and the host both see, zero at first; they live as long as the queue. */
COIL_C_API int64_t* coil_queue_words(coil_queue*, size_t count);
/* A kernel among the binaries, by its name; it lives as long as the queue. */
COIL_C_API const void* coil_queue_kernel(coil_queue*, const char* name);
/* A descriptor of a tensor for the copy engine (CUtensorMap, 128 bytes at `map`), which kernels take as an argument
 * that begins at a multiple of 64 bytes: values of CUtensorMapDataType and CUtensorMapSwizzle, elements of a tile and
 * of the tensor, the outermost dimension first, strides in bytes. */
COIL_C_API int coil_queue_tensor_map(coil_queue*, int32_t element, int32_t swizzle, size_t rank, const int64_t* box,
                                     const int64_t* sizes, const int64_t* strides, void* address, void* map);
/* Launches a kernel whose parameters are `count` words of 8 bytes, in `grid` blocks of `block` threads along x; one
 * with a 0 or less in its grid launches nothing. `early`: the kernel itself waits for the one before it. */
COIL_C_API int coil_queue_launch(coil_queue*, const void* kernel, void* const* words, size_t count,
                                 const int64_t grid[3], int64_t block, int64_t shared_bytes, int32_t early);
/* As coil_op_create, on the queue: operands are memory of its device, and coil_op_run returns when the work is queued.
 * One operation, `device_copy`, is between the device and the host, each operand on either. It is done when coil_op_run
 * returns where it goes to the host and is not `non_blocking`; to the device, the memory of the host has been read.
 */
COIL_C_API coil_op* coil_op_create_on(coil_queue*, const char* name);

/* ---- Process groups, for programs with collectives ------------------------------------------------------------------
 * The group of all processes is called `default`, and what torchrun, `coil run --ranks` or the like tell of it in the
 * environment is read when a program asks for it (docs/distribution.md). These say it instead, before that. */

/* This process is `rank` of `size`; they find one another at `store`: tcp:HOST:PORT, whose server rank 0 then holds, or
 * file:FOLDER, one that is new for each run. A rank that is later than `timeout` seconds is an error. */
COIL_C_API int coil_groups_open(int32_t rank, int32_t size, const char* store, double timeout);
/* A group of some processes, as a program names it: their ranks among all, in the order of their ranks in the group. */
COIL_C_API int coil_group_define(const char* name, const int32_t* ranks, size_t count);
/* Fails, naming the group, where this process is in none of this name, or it has not `ranks` of them (0: any number).
 * Looks at no other process: a program's first run is what joins its groups. */
COIL_C_API int coil_group_require(const char* name, int64_t ranks);
/* The same for a group that exchanges memory of the queue's device. */
COIL_C_API int coil_group_require_on(coil_queue*, const char* name, int64_t ranks);
/* Returns when nothing that the calling thread's program has started is on its way any more. */
COIL_C_API void coil_groups_settle(void);

/* Memory that all ranks of a process group on one machine reach: `bytes` of it on each, which all of them ask for in
 * the same order and with the same `plan`, a text. Returns when all have come; null on failure, which names the ranks
 * that have not, or whose plan is another. Where ranks cannot reach each other's memory each has its own. */
typedef struct coil_comm coil_comm;
COIL_C_API coil_comm* coil_comm_open(const char* group, size_t bytes, const char* plan);
/* The same of the queue's device; it is closed before the queue. */
COIL_C_API coil_comm* coil_comm_open_on(coil_queue*, const char* group, size_t bytes, const char* plan);
COIL_C_API void* coil_comm_data(const coil_comm*);
/* After a run that failed: the memory is of no use any more on any rank, whose next exchange is an error. */
COIL_C_API void coil_comm_abandon(coil_comm*);
/* Addresses in it are of no use after this, which waits for the work of its queue; null does nothing. */
COIL_C_API void coil_comm_close(coil_comm*);

/* For operators whose arguments lie in such memory (coil_operator_symm_mem_args), by any address in it. */
/* This rank in the group, and how many there are. Fails where the address is in no memory of this kind. */
COIL_C_API int coil_comm_ranks(const void* address, int32_t* rank, int32_t* size);
/* Where the same place of another rank lies, as this process sees it. Null where that rank's memory cannot be reached,
 * or is that of no rank. */
COIL_C_API void* coil_comm_peer(const void* address, int32_t rank);
/* Returns when all ranks have come to it, and what they wrote before can be read. */
COIL_C_API int coil_comm_barrier(const void* address);

/* ---- Operators of the host ------------------------------------------------------------------------------------------
 */

/* An argument of a call. */
typedef enum coil_value_kind {
  COIL_VALUE_NONE = 0,
  COIL_VALUE_TENSOR,
  COIL_VALUE_BOOL,
  COIL_VALUE_INT,
  COIL_VALUE_FLOAT,
  COIL_VALUE_TEXT, /* a string; also a dtype, device, memory format or layout, by torch's name */
  COIL_VALUE_LIST
} coil_value_kind;
typedef struct coil_value {
  coil_value_kind kind;
  int64_t integer;                /* BOOL, INT */
  double real;                    /* FLOAT */
  const char* text;               /* TEXT */
  const coil_tensor* tensor;      /* TENSOR */
  const struct coil_value* items; /* LIST, of `count` */
  size_t count;
} coil_value;
/* Carries out one call: arguments in the order of the schema, defaults filled in; writes every result into the memory
 * that `outputs` has for it, in the strides given (data null: nobody reads that one). Everything is borrowed for the
 * call. Returns 0, or another number after coil_set_error. Called by the thread that runs the program; several may at
 * once. */
typedef int (*coil_operator_function)(const coil_value* arguments, size_t argument_count, const coil_tensor* outputs,
                                      size_t output_count, void* user);
/* Makes an operator known to this process by its schema in torch's notation, `mylib::scale(Tensor x, float by=1.0) ->
 * Tensor`: packages that call it are bound to it when they are loaded, and one that calls what is not there, or is
 * there with another schema, is refused. Fails on a name that is taken. */
COIL_C_API int coil_operator_register(const char* schema, coil_operator_function, void* user);

/* Says that these arguments of the operator of this schema, tensors or lists of tensors, must lie in memory that the
 * ranks of a process group share (coil_comm_peer): programs that are compiled in this process from now on make them
 * there. The group is the one that the argument `group_name` or `group` names, else that of all processes. Fails on
 * names that the schema does not have, that are no tensors or come twice, on an operator that has other names already,
 * and on one that returns an argument that it writes to. */
COIL_C_API int coil_operator_symm_mem_args(const char* schema, const char* const* names, size_t count);

/* Results that an operator makes itself, since only it tells their sizes. */
typedef struct coil_results coil_results;
/* One more result, in the order of the schema: dense, zero-filled memory of these sizes, for the operator to fill; both
 * belong to the results. Null on failure. */
COIL_C_API coil_tensor* coil_results_add(coil_results*, coil_dtype, int32_t rank, const int64_t* sizes);
COIL_C_API size_t coil_results_count(const coil_results*);
/* Null where there is none. */
COIL_C_API const coil_tensor* coil_results_at(const coil_results*, size_t index);
/* Of results that coil_operator_results gave. */
COIL_C_API void coil_results_free(coil_results*);
/* As coil_operator_function, but all results are added, read by somebody or not. */
typedef int (*coil_results_function)(const coil_value* arguments, size_t argument_count, coil_results* results,
                                     void* user);
/* As coil_operator_register, for operators whose results may have sizes that follow from data. */
COIL_C_API int coil_operator_register_results(const char* schema, coil_results_function, void* user);

/* A registered operator by its name, `mylib.scale.default`, for programs written by `--emit=cpp`. Null when there is
 * none, or it has another schema. Lives as long as the process. */
typedef struct coil_operator coil_operator;
COIL_C_API const coil_operator* coil_operator_find(const char* name, const char* schema);
COIL_C_API int coil_operator_call(const coil_operator*, const coil_value* arguments, size_t argument_count,
                                  const coil_tensor* outputs, size_t output_count);
/* What an operator of coil_operator_register_results gives; null on failure. */
COIL_C_API coil_results* coil_operator_results(const coil_operator*, const coil_value* arguments,
                                               size_t argument_count);

/* ---- Packages -----------------------------------------------------------------------------------------------------
 */

/* An input or output of a program. */
typedef struct coil_port {
  const char* name; /* as in files of inputs and outputs */
  coil_dtype dtype;
  int32_t rank;
  int32_t mutated; /* an input that runs write to */
  int32_t unused;  /* an input exported as a fixed value: accepted, not read */
} coil_port;

/* A package written by `coil compile`, loaded: kernels ready to be called, weights mapped. Immutable; any number of
 * threads may use it at once. */
typedef struct coil_model coil_model;
/* Null when the file is no package, is damaged, or needs instructions that this machine lacks. */
COIL_C_API coil_model* coil_model_load(const char* path);
/* Contexts that were made of the model keep what they need of it. */
COIL_C_API void coil_model_free(coil_model*);
/* Arrays of `*count` ports; they live as long as the model. */
COIL_C_API const coil_port* coil_model_inputs(const coil_model*, size_t* count);
COIL_C_API const coil_port* coil_model_outputs(const coil_model*, size_t* count);
/* Writes `rank` sizes of input (output) `index`; -1 where the size depends on the call. Fails when there is no such
 * port. */
COIL_C_API int coil_model_input_sizes(const coil_model*, size_t index, int64_t* sizes);
COIL_C_API int coil_model_output_sizes(const coil_model*, size_t index, int64_t* sizes);

/* How inputs and outputs nest in the program that was exported, as JSON (the member `signature` in docs/package.md):
 * dictionary keys, names of fields, positions. Ports are its leaves, and their names the paths to them. Empty where the
 * package does not say. Lives as long as the model. */
COIL_C_API const char* coil_model_signature(const coil_model*);
/* Where each call comes from, as JSON (docs/emitted.md); empty where the package was not compiled with `--set
 * provenance=true`. Lives as long as the model. */
COIL_C_API const char* coil_model_provenance(const coil_model*);

/* Random numbers of runs from now on follow from this number and the order of runs; at first they follow from the
 * system's entropy. For all contexts of the model, and of those made from it. */
COIL_C_API int coil_model_seed(const coil_model*, uint64_t seed);

/* Weights of the model: what its package holds. Packed ones are bytes. */
COIL_C_API const coil_port* coil_model_weights(const coil_model*, size_t* count);
/* Writes `rank` sizes of weight `index`. */
COIL_C_API int coil_model_weight_sizes(const coil_model*, size_t index, int64_t* sizes);
/* The same model with other values in `count` of its weights, which are copied; kernels and all other weights are
 * shared. The first model stays as it is, and so do its contexts: swapping is making contexts of the new one. Null for
 * a name that is not there, another dtype or size, and a weight that the compiler folded or packed (compile with --set
 * pack_weights=false --set fold_constants=false to keep all). */
COIL_C_API coil_model* coil_model_with_weights(const coil_model*, const char* const* names, const coil_tensor* weights,
                                               size_t count);

/* What one call at a time needs: memory for temporaries, prepared library calls, the program's own state (buffers that
 * it writes to). Make one for each thread that calls. */
typedef struct coil_context coil_context;
COIL_C_API coil_context* coil_context_create(const coil_model*);
COIL_C_API void coil_context_free(coil_context*);
/* Runs the program. Inputs are borrowed for the call, in the order of coil_model_inputs, with any strides; those marked
 * `mutated` are written to. Fills `outputs`, in the order of coil_model_outputs; each is to be released with
 * coil_tensor_release. One that aliases an input, or a state of the context, borrows its memory. On failure no output
 * is set. Programs for a GPU take memory of the host and of their device alike, and return when all is done. Outputs
 * come to the host, copies all of them, with the strides they have on the device where these leave no holes, else
 * dense. */
COIL_C_API int coil_context_run(coil_context*, const coil_tensor* inputs, size_t input_count, coil_tensor* outputs,
                                size_t output_count);
/* For programs for a GPU; fails for one on the CPU. From now on outputs stay in memory of the device, numbers excepted,
 * and runs return when their work is queued on `stream` (a CUstream of that device; null: one of the context's own, in
 * order with CUDA's default stream). Inputs of the host have been read when a run returns; those of the device are
 * borrowed until its work is done. What goes wrong on the device is said by coil_context_wait or a later run. An output
 * that aliases an input borrows its memory; others own theirs, which may be released while work on the stream still
 * uses it, and is then used again in the stream's order. */
COIL_C_API int coil_context_stay_on_device(coil_context*, void* stream);
/* Returns when all runs are done; fails where a kernel failed. */
COIL_C_API int coil_context_wait(coil_context*);
/* From any thread, or a signal's handler: a run that is in a loop ends between two turns, with an error. The context is
 * as good for the next run as before. No effect when nothing runs. */
COIL_C_API void coil_context_interrupt(coil_context*);
/* Output memory comes from `allocate(bytes, user)` from now on (aligned to 64 bytes; null: out of memory) and is the
 * caller's: outputs then have no owner. Outputs that view one another share one block. `release(memory, user)` takes
 * back what a failed run does not hand out. `allocate` null restores coil_alloc. After coil_context_stay_on_device it
 * gives memory of the device; numbers, which lie on the host, have an owner then. */
COIL_C_API int coil_context_set_allocator(coil_context*, void* (*allocate)(size_t bytes, void* user),
                                          void (*release)(void* memory, void* user), void* user);
/* Bytes that the context holds for the sizes of its last run: temporaries, scratch memory of library calls, and the
 * outputs of one run. */
typedef struct coil_memory {
  size_t arena_bytes, workspace_bytes, output_bytes, weight_bytes;
} coil_memory;
COIL_C_API coil_memory coil_context_memory(const coil_context*);

/* ---- The entry that a program written by `coil compile --emit=cpp` defines ----------------------------------------
 */

typedef struct coil_program coil_program;

/* `weights`: the file written beside the source; null looks for it beside the program's own file, then in the current
 * folder. */
COIL_C_API coil_program* coil_program_open(const char* weights);
COIL_C_API void coil_program_close(coil_program*);
/* As coil_model_seed. */
COIL_C_API void coil_program_seed(coil_program*, uint64_t seed);
COIL_C_API const coil_port* coil_program_inputs(const coil_program*, size_t* count);
COIL_C_API const coil_port* coil_program_outputs(const coil_program*, size_t* count);
/* For programs for a GPU, as coil_context_stay_on_device has it; fails for one on the CPU. */
COIL_C_API int coil_program_stay_on_device(coil_program*, void* stream);
/* As coil_context_wait. */
COIL_C_API int coil_program_wait(coil_program*);
/* One run at a time. Inputs are borrowed; those marked `mutated` are written to. Each output is to be released with
 * coil_tensor_release; one that aliases an input or a weight borrows its memory. Programs for a GPU take and give
 * memory as coil_context_run says. */
COIL_C_API int coil_program_run(coil_program*, const coil_tensor* inputs, size_t input_count, coil_tensor* outputs,
                                size_t output_count);

#ifdef __cplusplus
}
#endif
#endif
