"""What eager says of a drawn call. It runs in a process of its own: torch's operators do not check all that their
Python callers do, and some write past their memory, which must not look like a fault of Coil's.
"""

import dataclasses
import os
import pickle
import select
import signal
import subprocess
import sys

import torch

from schema_draws import Draw, flat, unflat
from text_graph import comparable

SECONDS = 30  # of one call: more is taken for a hang
CALLS = 2000  # of one process: what it wrote past its memory is gone with it


@dataclasses.dataclass
class Answer:
    """`results`: what each single value of the result is, in the order of a tree's leaves; None where eager refused.
    A tensor is (element type, sizes, strides, offset, the input whose memory it lies in or None). `shape`: the tree,
    with None for its leaves.
    """

    results: list | None = None
    shape: object = None
    refused: str = ""
    crashed: str = ""
    values: object = None


def copied(draw):
    """(args, kwargs) in memory of their own, laid out as they were; what was one tensor stays one."""
    copies = {}

    def copy(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:
            storage = leaf.untyped_storage().clone()
            empty = torch.empty(0, dtype=leaf.dtype)
            copies[id(leaf)] = empty.set_(storage, leaf.storage_offset(), leaf.shape, leaf.stride())
        return copies[id(leaf)]

    return unflat((draw.args, draw.kwargs), [copy(leaf) for leaf in draw.leaves()])


def eager(draw):
    """(arguments after the call, result, None), or (None, None, the error)."""
    args, kwargs = copied(draw)
    try:
        with torch.no_grad():
            return (args, kwargs), draw.operator(*args, **kwargs), None
    except Exception as error:
        return None, None, f"{type(error).__name__}: {str(error).strip() or '?'}"


def values_of(result):
    """Single values of a result: None stands for no tensor."""
    if isinstance(result, (list, tuple)):
        return [v for r in result if r is not None for v in values_of(r)]
    return [] if result is None else [result]


def shape_of(result):
    """A list for a list, True for a value, None for nothing."""
    if isinstance(result, (list, tuple)):
        return [shape_of(r) for r in result]
    return None if result is None else True


def plain(dtype, sizes, strides, offset, place):
    """Strides where they count, an offset where the memory is an input's."""
    dtype, sizes, strides, offset = comparable(dtype, list(sizes), list(strides), offset)
    place = None if 0 in sizes else place
    return dtype, sizes, strides, offset if place is not None else 0, place


def metadata_of(value, storages):
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided:
        return str(value.layout)
    place, start = storages.get(value.untyped_storage().data_ptr(), (None, 0)) if value.numel() else (None, 0)
    name = str(value.dtype).removeprefix("torch.")
    offset = (value.data_ptr() - start) // value.itemsize if place is not None else 0  # from the input's own beginning
    return plain(name, value.shape, value.stride(), offset, place)


def storages_of(draw, after):
    """(Input, counted as the inputs of Coil's graph are; where its data begin) by the address of its memory."""
    storages, count, seen = {}, 0, set()
    for i, leaf in enumerate(flat(after)):
        if isinstance(leaf, torch.Tensor) and id(leaf) not in seen:
            seen.add(id(leaf))
            if leaf.numel():
                storages.setdefault(leaf.untyped_storage().data_ptr(), (count, leaf.data_ptr()))
            count += 1
        elif i in draw.symbols or i in draw.floats:
            count += 1
    return storages


def packed(value):
    """A tensor as its type, its sizes and its bytes: torch's own pickles do not take all types."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    data = value.detach().resolve_conj().resolve_neg().contiguous()
    return value.dtype, tuple(value.shape), bytes(data.reshape(-1).view(torch.uint8).tolist())


def unpacked(value):
    if not isinstance(value, tuple):
        return value
    dtype, sizes, data = value
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(sizes) if data else torch.empty(sizes, dtype=dtype)


def answer(draw, with_values=False):
    after, result, refused = eager(draw)
    if refused is not None:
        return Answer(refused=refused)
    storages = storages_of(draw, after)
    found = [metadata_of(v, storages) for v in values_of(result)]
    values = tuple([packed(v) for v in side] for side in (flat(after), values_of(result))) if with_values else None
    return Answer(results=found, shape=shape_of(result), values=values)


def takes_other_values(draw):
    """Whether eager takes a call of the same types and sizes."""

    def filled(leaf, kind):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.dtype == torch.bool:
            return torch.full(leaf.shape, kind != "zeros")
        if leaf.is_floating_point() or leaf.is_complex():
            if kind == "eye" and leaf.dim() > 1:
                return torch.eye(*leaf.shape[-2:]).expand(leaf.shape).to(leaf.dtype)
            return torch.full(leaf.shape, {"zeros": 0.0, "ones": 1.0, "eye": 1.0, "half": 0.5}[kind]).to(leaf.dtype)
        if kind == "rising" and leaf.dim() == 1:
            return torch.arange(leaf.numel()).to(leaf.dtype)
        return torch.full(leaf.shape, 0 if kind in ("zeros", "half", "rising") else 1).to(leaf.dtype)

    for kind in ("half", "ones", "zeros", "eye", "rising"):
        try:
            leaves = [filled(leaf, kind) for leaf in draw.leaves()]
        except (RuntimeError, KeyError):
            continue
        args, kwargs = unflat((draw.args, draw.kwargs), leaves)
        if eager(Draw(draw.target, args, kwargs))[2] is None:
            return True
    return False


class Eager:
    """A process that answers for draws by their number. It outlives the operators that it calls, and may be asked by
    whoever has its pipes.
    """

    def __init__(self, arguments):
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def ask(self, what, number):
        self.process.stdin.write(f"{what} {number}\n".encode())
        return pickle.loads(read_block(self.process.stdout.fileno()))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def read_block(file, seconds=None):
    """What write_block wrote. Throws EOFError where the other side is gone, TimeoutError where it takes too long."""
    data, size = b"", 8
    while len(data) < size:
        if seconds and not select.select([file], [], [], seconds)[0]:
            raise TimeoutError
        if not (part := os.read(file, size - len(data))):
            raise EOFError
        data += part
        if len(data) == 8 and size == 8:
            size += int.from_bytes(data, "little")
    return data[8:]


def write_block(file, data):
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(file, data) :]


class Child:
    """A fork that carries out calls."""

    def __init__(self, drawer):
        theirs, self.requests = os.pipe()
        self.answers, out = os.pipe()
        self.calls = 0
        if (pid := os.fork()) == 0:
            os.close(self.requests)
            self.answer_all(drawer, theirs, out)
            os._exit(0)
        self.pid = pid
        os.close(theirs)
        os.close(out)

    def answer_all(self, drawer, requests, out):
        while True:
            try:
                what, number = pickle.loads(read_block(requests))
            except EOFError:
                return
            draw = drawer.draw(number)
            write_block(
                out, pickle.dumps(takes_other_values(draw) if what == "other" else answer(draw, what == "values"))
            )

    def ask(self, what, number):
        self.calls += 1
        write_block(self.requests, pickle.dumps((what, number)))
        return read_block(self.answers, SECONDS)

    def end(self):
        """Its exit code."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.requests)
        os.close(self.answers)
        return os.waitstatus_to_exitcode(status)


def serve(drawer):
    """The other side of Eager."""
    out = os.dup(1)
    os.dup2(2, 1)  # what operators print is no answer
    child = None
    for line in sys.stdin:
        what, number = line.split()
        if child and child.calls >= CALLS:
            child = child.end() and None
        child = child or Child(drawer)
        try:
            data = child.ask(what, int(number))
        except (EOFError, TimeoutError, BrokenPipeError) as error:
            data = pickle.dumps(Answer(crashed=f"{type(error).__name__}, exit code {child.end()}"))
            child = None
        write_block(out, data)
    if child:
        child.end()
