// A wrapper backend from outside: programs as Python whose kernels are timed, one call at a time.
//
//   g++ -std=c++20 -fPIC -shared -I SOURCES/src -I SOURCES/include timed_python.cpp -o timed_python.so
//   coil compile model.pt2 -o model.py --load ./timed_python.so --emit timed-python
//
// One function is overridden: how a kernel is called. Everything else (sizes, memory, library calls, weights) is Coil's
// own.
#include "wrapper/emit_python.h"
#include "wrapper/emitters.h"

namespace {

class TimedPython : public coil::wrapper::PythonEmitter {
  std::string kernel_call(const std::string& symbol, const std::string& buffers, const std::string& scalars,
                          const std::string& extent, std::int64_t grain, const std::string& failure) override {
    const std::string call = PythonEmitter::kernel_call(symbol, buffers, scalars, extent, grain, failure);
    return "timed(" + symbol + call.substr(symbol.size()).replace(0, 1, ", ");  // coil_1(a, b) -> timed(coil_1, a, b)
  }

  std::string definitions() override {
    return R"py(

import time

SECONDS = {}


def timed(kernel, *args, **kwargs):
    """Runs a kernel and adds its time to SECONDS."""
    start = time.perf_counter()
    kernel(*args, **kwargs)
    SECONDS[kernel.__name__] = SECONDS.get(kernel.__name__, 0.0) + time.perf_counter() - start
)py";
  }
};

const bool registered = [] {
  coil::wrapper::register_emitter("timed-python", [] { return std::make_unique<TimedPython>(); });
  return true;
}();

}  // namespace
