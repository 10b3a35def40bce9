// Metal's machine (runtime/metal/machine.h) on the host, for tests: memory is the process's, kernels are compiled by
// its C++ compiler behind the shim of device/metal, and a command buffer runs when it is waited for, as late as it may.
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/pieces.h"

namespace {

thread_local std::string last_error;

using Kernel = void (*)(void* const* arguments, const unsigned long* grid, unsigned threads);

struct Buffer {
  std::shared_ptr<char> memory;
};

struct Library {
  void* handle = nullptr;
};

/// An argument as it was when it was set.
struct Argument {
  std::shared_ptr<char> memory;
  std::size_t offset = 0;
  void* address() const { return memory ? memory.get() + offset : nullptr; }
};

struct Command {
  Kernel kernel = nullptr;
  std::vector<Argument> arguments;
  std::array<unsigned long, 3> grid{};
  unsigned threads = 0;
};

struct Queue {
  Command next;
  std::vector<Command> commands;
};

std::shared_ptr<char> memory_of(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  void* const data = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  return {static_cast<char*>(data), [](char* p) { std::free(p); }};
}

/// Behind the kernels: a function for each, which takes its arguments by their addresses.
constexpr const char* kCalls = R"(
template <class P> static P c_taken(void* const* a, int k, int count) {
  if constexpr (std::is_pointer<P>::value)
    return (P)a[k];
  else if constexpr (std::is_same<P, c_dim>::value)
    return k == count - 2 ? c_block_at : c_thread_at;
  else
    return *(std::remove_reference_t<P>*)a[k];
}
template <class... P, std::size_t... K>
static void c_run_with(void (*f)(P...), void* const* a, std::index_sequence<K...>) {
  f(c_taken<P>(a, (int)K, (int)sizeof...(P))...);
}
template <class... P> static void c_run(void (*f)(P...), void* const* a, const unsigned long* grid, unsigned threads) {
  c_launch(grid, threads, 1, true, [&] { c_run_with(f, a, std::index_sequence_for<P...>{}); });
}
)";

std::string as_cpp(std::string source) {
  const std::string library = "#include <metal_stdlib>\n";
  if (!source.starts_with(library)) throw std::runtime_error("a file of Metal begins with its library");
  source = coil::device::whole("grid/fibers.h") + coil::device::whole("metal/shim.h") + source.substr(library.size());
  std::string calls = kCalls;
  const std::regex kernel("kernel void (\\w+)\\(");
  for (std::sregex_iterator k(source.begin(), source.end(), kernel), end; k != end; ++k) {
    const std::string name = (*k)[1];
    calls += "extern \"C\" void " + name +
             "_run(void* const* a, const unsigned long* grid, unsigned threads) { c_run(" + name +
             ", a, grid, threads); }\n";
  }
  return source + calls;
}

void* load(const std::string& text) {
  std::string folder = (std::filesystem::temp_directory_path() / "fake_metal_XXXXXX").string();
  if (!mkdtemp(folder.data())) throw std::runtime_error("no temporary folder can be made");
  std::ofstream(folder + "/kernels.cpp") << text;
  const std::string command = "c++ -std=c++20 -O1 -w -fPIC -shared -ffp-contract=off " + folder + "/kernels.cpp -o " +
                              folder + "/kernels.so 2> " + folder + "/errors.txt";
  const int status = std::system(command.c_str());
  std::ifstream errors(folder + "/errors.txt");
  const std::string complaint{std::istreambuf_iterator<char>(errors), {}};
  void* const handle = status == 0 ? dlopen((folder + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::filesystem::remove_all(folder);
  if (!handle) throw std::runtime_error(complaint.substr(0, 2000));
  return handle;
}

Argument& argument(void* queue, std::uint32_t index) {
  auto& arguments = static_cast<Queue*>(queue)->next.arguments;
  if (arguments.size() <= index) arguments.resize(index + 1);
  return arguments[index];
}

}  // namespace

extern "C" {

const char* coil_metal_error() { return last_error.c_str(); }

void* coil_metal_open(int index) {
  if (index == 0) return new char;
  last_error = "this machine has one GPU";
  return nullptr;
}
void coil_metal_close(void* gpu) { delete static_cast<char*>(gpu); }

void* coil_metal_allocate(void*, std::size_t bytes, void** contents) {
  auto* const buffer = new Buffer{memory_of(bytes)};
  *contents = buffer->memory.get();
  return buffer;
}
void coil_metal_release(void* buffer) { delete static_cast<Buffer*>(buffer); }

void* coil_metal_compile(void*, const char* source, std::size_t bytes) {
  try {
    return new Library{load(as_cpp({source, bytes}))};
  } catch (const std::exception& e) {
    last_error = e.what();
    return nullptr;
  }
}
void coil_metal_free_library(void* library) { delete static_cast<Library*>(library); }
void* coil_metal_find(void* library, const char* name) {
  return dlsym(static_cast<Library*>(library)->handle, (std::string(name) + "_run").c_str());
}

void* coil_metal_make_queue(void*) { return new Queue; }
void coil_metal_free_queue(void* queue) { delete static_cast<Queue*>(queue); }

void coil_metal_use(void* queue, void* kernel) {
  static_cast<Queue*>(queue)->next = {reinterpret_cast<Kernel>(kernel), {}, {}, 0};
}
void coil_metal_set_buffer(void* queue, std::uint32_t index, void* buffer, std::size_t offset) {
  argument(queue, index) = {static_cast<Buffer*>(buffer)->memory, offset};
}
void coil_metal_set_bytes(void* queue, std::uint32_t index, const void* data, std::size_t bytes) {
  Argument& a = argument(queue, index);
  a = {memory_of(bytes), 0};
  std::memcpy(a.memory.get(), data, bytes);
}
int coil_metal_dispatch(void* queue, const std::uint32_t* grid, std::uint32_t threads) {
  auto& q = *static_cast<Queue*>(queue);
  if (threads == 0 || threads > 1024) {
    last_error = "a threadgroup has 1 to 1024 threads";
    return 1;
  }
  q.next.grid = {grid[0], grid[1], grid[2]};
  q.next.threads = threads;
  q.commands.push_back(q.next);
  return 0;
}
int coil_metal_finish(void* queue) {
  auto& q = *static_cast<Queue*>(queue);
  const std::vector<Command> commands = std::exchange(q.commands, {});
  for (const Command& c : commands) {
    std::vector<void*> addresses;
    for (const Argument& a : c.arguments) addresses.push_back(a.address());
    c.kernel(addresses.data(), c.grid.data(), c.threads);
  }
  return 0;
}

}  // extern "C"
