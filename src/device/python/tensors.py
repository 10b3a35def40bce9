"""Inputs, weights, views."""

import itertools
import json
import mmap
import struct

import torch

from .imports import HERE

# @piece tensors
# ---- Inputs, weights, views ----


def float_of_bits(word):
    return struct.unpack("d", struct.pack("q", word))[0]


def bits_of_float(x):
    return struct.unpack("q", struct.pack("d", x))[0]


def check(condition, message):
    if not condition:
        raise RuntimeError(message)


def take(name, value, dtype, rank, device=torch.device("cpu")):
    """An input as a tensor (a Python number as 0-d), of the dtype and rank that the program takes."""
    t = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype, device=device)
    traced = isinstance(t, torch._subclasses.FakeTensor)  # which may say that it is nowhere
    check(
        t.device == device or traced and t.is_meta,
        f"input '{name}' is on {t.device}, but the program takes it on {device}; move it there",
    )
    check(t.dtype == dtype, f"input '{name}' is {t.dtype}, but the program takes {dtype}")
    check(t.dim() == rank, f"input '{name}' has {t.dim()} dimensions, but the program takes {rank}")
    return t.detach()


def lay_out(name, t, sizes, strides):
    """Asserts the sizes; the input itself, or a copy where its strides are not those that kernels assume, or its
    address none that a GPU's can read 16 bytes from."""
    for d, (given, wanted) in enumerate(zip(t.shape, sizes)):
        check(given == wanted, f"input '{name}' has size {given} in dimension {d}, but the program takes {wanted}")
    aligned = not t.is_cuda or t.storage_offset() * t.element_size() % 16 == 0
    if t.numel() == 0 or aligned and all(n == 1 or a == b for n, a, b in zip(sizes, t.stride(), strides)):
        return t
    return torch.empty_strided(sizes, strides, dtype=t.dtype, device=t.device).copy_(t)


def write_back(given, used):
    """What the program wrote to a copy goes to the caller's tensor."""
    if used.data_ptr() != given.data_ptr():
        given.copy_(used)


COMM_POOLS = {}


def comm_pool(group, bytes):
    """Where a process group's communication buffers lie, at the same places in every run: memory of this rank alone,
    since torch's process groups carry the exchanges out."""
    if group not in COMM_POOLS:
        COMM_POOLS[group] = torch.empty(bytes, dtype=torch.uint8)
    return COMM_POOLS[group]


def window(t, dtype, sizes, strides, offset=0):
    """A strided view of a buffer's memory; the offset counts elements from its first."""
    if t.dtype != dtype:
        first = t.storage_offset() * t.element_size() // dtype.itemsize
        t = torch.empty(0, dtype=dtype, device=t.device).set_(t.untyped_storage(), first, (0,), (1,))
    return torch.as_strided(t, sizes, strides, t.storage_offset() + offset)


def open_weights(name):
    """The file of weights as {name: (first byte, bytes)} and its memory; what the program writes to it stays in this
    process."""
    with open(HERE / name, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    length = int.from_bytes(memory[:8], "little")
    places = {
        k: (8 + length + v["data_offsets"][0], v["data_offsets"][1] - v["data_offsets"][0])
        for k, v in json.loads(memory[8 : 8 + length]).items()
        if k != "__metadata__"
    }
    return places, memory


def weight(file, name, offset, bytes, dtype, sizes, strides, device=torch.device("cpu")):
    """A constant in the file of weights."""
    if bytes == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    places, memory = file
    check(
        name in places and places[name][1] >= offset + bytes,
        f"the file of weights belongs to another program: no '{name}' of {offset + bytes} bytes",
    )
    return (
        torch.frombuffer(memory, dtype=dtype, count=bytes // dtype.itemsize, offset=places[name][0] + offset)
        .to(device)
        .as_strided(sizes, strides)
    )


KEPT, TICKETS = {}, itertools.count(1)


def flat(op):
    """`op`, which gives lists among several results: what they hold counts as results of its own."""
    return lambda *args, **kwargs: [
        item for r in op(*args, **kwargs) for item in (r if isinstance(r, (list, tuple)) else [r])
    ]


def sized(op):
    """`op`, whose results have sizes that only it tells: it runs, they are kept, and the sizes asked for follow the
    number that they are kept under."""

    def call(which, *args, **kwargs):
        results = op(*args, **kwargs)
        tensors, ticket = results if isinstance(results, (list, tuple)) else [results], next(TICKETS)
        KEPT[ticket] = results
        while len(KEPT) > 64:  # of runs that failed before they took theirs
            del KEPT[next(iter(KEPT))]
        return torch.tensor(
            [ticket, *(tensors[k].size(d) for k, d in zip(which[::2], which[1::2]))], device=tensors[0].device
        )

    return call


def kept(ticket):
    return KEPT.pop(int(ticket[0]))
