"""What the log says of a graph that is compiled again (the stage `recompiles`): which guard failed, and what was
compiled.
"""

import sys
import time

import torch


class Watch:
    """The compile of one graph of Dynamo's; `told` says nothing unless it is a recompile."""

    def __init__(self):
        compile_id = torch._guards.CompileContext.current_compile_id()
        self.again = compile_id is not None and (compile_id.frame_compile_id or 0) > 0
        self.compile_id = compile_id
        self.graphs = []  # (its name, compiled graph)
        self.start = time.perf_counter()

    def told(self, found):
        """`found`: how many graphs came out of AOTAutograd's cache."""
        if not self.again:
            return
        seconds = time.perf_counter() - self.start
        reason, function = _reason()
        compiled = [
            f"{name}: {graph.kernels} kernels{'' if graph.compiled_here else ', from the cache'}"
            for name, graph in self.graphs
        ]
        if found:
            compiled.append(f"{found} graphs from AOTAutograd's cache")
        lines = [
            f"coil: [{self.compile_id}] {function} is compiled again ({seconds:.2f} s): {'; '.join(compiled)}",
            *(f"coil:     a guard failed: {line.strip()}" for line in reason.splitlines() if line.strip()),
        ]
        print("\n".join(lines), file=sys.stderr)


def _reason():
    """Why Dynamo compiles again, as its metrics have it, and which function."""
    reason = torch._dynamo.utils.get_metrics_context()._metrics.get("recompile_reason")
    stack = torch._guards.TracingContext.extract_stack()
    function = f"{stack[0].name} ({stack[0].filename}:{stack[0].lineno})" if stack else "a function"
    return reason or "Dynamo names none", function
