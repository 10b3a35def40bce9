"""What the log says of a graph that is compiled again (the stage `recompiles`): which guard failed, and what was
compiled.
"""

import re
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

    def told(self, gm, found):
        """`found`: how many graphs came out of AOTAutograd's cache."""
        if not self.again:
            return
        seconds = time.perf_counter() - self.start
        # Dynamo's metrics have the reason.
        reason = torch._dynamo.utils.get_metrics_context()._metrics.get("recompile_reason") or "Dynamo names none"
        compiled = [
            f"{name}: {graph.kernels} kernels{'' if graph.compiled_here else ', from the cache'}"
            for name, graph in self.graphs
        ]
        if found:
            compiled.append(f"{found} graphs from AOTAutograd's cache")
        lines = [
            f"coil: [{self.compile_id}] {_function(gm)} is compiled again ({seconds:.2f} s): {'; '.join(compiled)}",
            *(f"coil:     a guard failed: {line.strip()}" for line in reason.splitlines() if line.strip()),
        ]
        print("\n".join(lines), file=sys.stderr)


def _function(gm):
    """Where the graph's first call stands in the user's program."""
    stacks = (node.meta.get("stack_trace") for node in gm.graph.nodes)
    places = re.findall(r'File "([^"]*)", line (\d+), in (\w+)', next(filter(None, stacks), ""))
    return "{2} ({0}:{1})".format(*places[-1]) if places else "a function"
