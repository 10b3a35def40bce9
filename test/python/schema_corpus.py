"""Calls of ATen operators that eager takes, recorded from PyTorch's operator database: what schema_fuzz.py changes.

    schema_corpus.py FILE

Each sample of each operator is traced twice, before autograd takes composite operators apart and with its gradients
after, and each call of the trace is carried out and kept: target, arguments, and tensors with their values. It takes
minutes.
"""

import argparse
import collections
import dataclasses
import pathlib
import pickle
import re
import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

SAMPLES = 8  # of each operator of the database and element type
KEPT = 24  # calls of each target
LARGEST = 4096  # elements of a tensor's memory
PLAIN = (int, float, complex, bool, str, type(None), torch.dtype, torch.memory_format, torch.layout, torch.device)


def described(value):
    """What makes two calls alike: types, sizes and strides of tensors, all else as it is."""
    leaves, spec = pytree.tree_flatten(value)
    return str(spec), tuple(
        (leaf.dtype, leaf.shape, leaf.stride()) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves
    )


class Recorder(torch.fx.Interpreter):
    """Carries a trace out and keeps its calls of ATen operators."""

    def __init__(self, gm, calls):
        super().__init__(gm)
        self.calls = calls

    def call_function(self, target, args, kwargs):
        if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
            self.keep(str(target), args, kwargs)
        return super().call_function(target, args, kwargs)

    def keep(self, target, args, kwargs):
        of = self.calls[target]
        leaves = pytree.tree_leaves((args, kwargs))
        if len(of) < KEPT and all(map(is_kept, leaves)):
            of.setdefault(described((args, kwargs)), (kept(list(args)), {k: kept(v) for k, v in kwargs.items()}))


def is_kept(leaf):
    if type(leaf) is torch.Tensor:
        return leaf.layout is torch.strided and leaf.untyped_storage().nbytes() <= 8 * LARGEST
    return type(leaf) in PLAIN


def kept(value):
    """With lists of torch.fx's own as plain ones."""
    if isinstance(value, (list, tuple)):
        return [kept(v) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    memory = bytes(value.detach().untyped_storage())
    return Kept(value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), memory)


@dataclasses.dataclass
class Kept:
    """A tensor in a file: torch's own forms do not take all of them."""

    dtype: torch.dtype
    sizes: tuple
    strides: tuple
    offset: int
    memory: bytes

    def tensor(self):
        storage = torch.frombuffer(bytearray(self.memory), dtype=torch.uint8) if self.memory else torch.empty(0)
        empty = torch.empty(0, dtype=self.dtype)
        return empty.set_(storage.untyped_storage(), self.offset, self.sizes, self.strides)


def load(path):
    """{target: [(args, kwargs)]}."""

    def made(value):
        if isinstance(value, list):
            return [made(v) for v in value]
        return value.tensor() if isinstance(value, Kept) else value

    calls = pickle.loads(pathlib.Path(path).read_bytes())
    return {target: [(made(a), {k: made(v) for k, v in kw.items()}) for a, kw in of] for target, of in calls.items()}


def function_of(op, sample):
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors):
        given = list(leaves)
        for i, tensor in zip(where, tensors):
            given[i] = tensor
        first, args, kwargs = pytree.tree_unflatten(given, spec)
        return op.op(first, *args, **kwargs)

    return function, [leaves[i] for i in where]


def with_gradients(function):
    def both(*tensors):
        results = [r for r in pytree.tree_leaves(function(*tensors)) if isinstance(r, torch.Tensor) and r.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        if not results or not wanted:
            return function(*tensors)
        return torch.autograd.grad(results, wanted, [torch.ones_like(r) for r in results], allow_unused=True)

    return both


def record_sample(op, sample, gradients, calls):
    function, tensors = function_of(op, sample)
    if gradients:
        tensors = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]
        trace = make_fx(with_gradients(function))(*tensors)
    else:
        tensors = [t.detach() for t in tensors]
        trace = make_fx(function, pre_dispatch=True)(*tensors)
    with torch.no_grad():
        Recorder(trace, calls).run(*[t.detach().clone() for t in tensors])


def record(pattern="", progress=lambda text: None):
    """{target: [(args, kwargs)]}."""
    from torch.testing._internal.common_methods_invocations import op_db

    calls = collections.defaultdict(dict)
    for op in op_db:
        if not re.search(pattern, op.name):
            continue
        progress(op.name)
        for dtype in (torch.float32, torch.int64):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(0)
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:  # some need libraries of their own
                continue
            for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
                for gradients in (False, True) if dtype == torch.float32 and op.supports_autograd else (False,):
                    try:
                        record_sample(op, sample, gradients, calls)
                    except Exception:  # what cannot be traced gives no calls
                        continue
    return {target: list(of.values()) for target, of in sorted(calls.items()) if of}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--ops", default="", help="a pattern that the database's names match")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    calls = record(args.ops, lambda name: print(name, flush=True))
    args.file.write_bytes(pickle.dumps(calls))
    print(f"{sum(map(len, calls.values()))} calls of {len(calls)} operators")


if __name__ == "__main__":
    from schema_corpus import main  # what the file names is found again by its module

    main()
