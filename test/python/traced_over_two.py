"""Run by test_several_devices.py beside the library that is a machine for metal: graphs as torch.compile traces them,
with fake tensors on a GPU, compiled for the CPU and the device `metal`.
"""

import torch

from coil.graph import translate
from test_several_devices import CASES, Program, exported_over, far, numbers


@torch.library.custom_op("two_devices::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    assert x.device.type == "cpu"
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("two_devices::fill", mutates_args=("x",))
def fill(x: torch.Tensor, value: float) -> torch.Tensor:
    x.add_(value)
    return x.sum(0)


@fill.register_fake
def _(x, value):
    return torch.empty_like(x[0])


class LeftToTorch(Program):
    """Operators of the CPU that torch carries out, between work of both devices."""

    def forward(self, x, y, s):
        near = (x * 2 + s).relu().cpu()
        doubled = twice(near)
        written = y * 2
        total = fill(written, 1.5)
        return doubled.to(self.far) + x, total, written.to(self.far, non_blocking=True) * x, near


LEFT = {"left": (LeftToTorch, lambda: (far(numbers(4, 3)), numbers(4, 3, seed=1), torch.tensor(0.5)))}
NAMES = ("crossing", "indexes", "large", "branches", "turns", "constants")


def check(name, program, args):
    module = program()
    exported = exported_over(module, args()).run_decompositions({})
    held = [*exported.state_dict.values(), *exported.constants.values()]  # which the graph takes first
    graph = translate(exported.graph_module, "graph", handed={"two_devices.twice.default"})
    assert graph.device == "cuda:0"
    compiled = graph.compile({"fallback": "true"}, None, [], "metal")
    want = module(*args())
    strides = [node.meta["val"].stride() for node in exported.graph.output_node().args[0]]
    for _ in range(2):
        got = compiled(*held, *args())
        assert len(got) == len(want)
        for one, other, traced in zip(got, want, strides):
            known = [a == b for a, b in zip(one.stride(), traced) if isinstance(b, int)]
            assert one.device.type == "cpu" and all(known), name
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    print(name, "right")


if __name__ == "__main__":
    for name, (program, args) in ({n: CASES[n] for n in NAMES} | LEFT).items():
        check(name, program, args)
