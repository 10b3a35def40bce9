"""Exchanges that compiled graphs carry out themselves, in process groups of torch.distributed.

A graph that does so is compiled for groups by the names that torch has for them. Coil connects the ranks of such a
group anew, through the group's own store, once in a process however many graphs use it. All ranks must do that alike:
what one of them leaves to torch, in eager or by another graph, would wait for the others' connections for ever. So
the ranks meet in the store when each comes to a graph for the first time, and compare what it exchanges. Where all
have the same, each runs the graph as it is; else, or where one does not come in time, each runs it with torch's calls.
"""

import contextlib
import functools
import hashlib
import os
import pathlib
import socket
import time
import uuid
import warnings
import weakref

import torch
from torch._dynamo.utils import counters

from . import _native

PREFIX = "torch:"  # of a group's name in a program

# Operators by what stands in their second place: how values are combined, the number of ranks, or nothing of interest.
_COMBINE = {
    f"_c10d_functional.{name}.default"
    for name in ("all_reduce", "all_reduce_coalesced", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced")
}
_MOVE = {
    f"_c10d_functional.{name}.default"
    for name in ("all_gather_into_tensor", "all_gather_into_tensor_coalesced", "all_to_all_single", "broadcast")
}
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_INTEGERS = {torch.int8, torch.uint8, torch.int32, torch.int64}
_COMBINATIONS = {"sum", "product", "min", "max"}

_PATIENCE = 120.0  # seconds that a rank waits for others, longer where they are compiling
_LONGEST_PAUSE = 0.016


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _combines(reduce, dtype):
    """Whether Coil's groups do, wherever values lie."""
    return (dtype in _FLOATS and reduce in _COMBINATIONS | {"avg"}) or (dtype in _INTEGERS and reduce in _COMBINATIONS)


def _moves(dtype):
    """Whether programs do: graphs leave calls on other types to torch."""
    return dtype in _FLOATS | _INTEGERS | {torch.int16, torch.bool}


class Taker:
    """Says of the collectives of one graph which of them the program is to carry out. `place`: the device that the
    graph runs on where it is another than its tensors'.
    """

    def __init__(self, place=None):
        self.place = place
        self.device = None  # the type that the tensors lie on; None: nothing was taken

    def __call__(self, node, operation):
        """The arguments with the group's name in a program; None where torch is to carry it out."""
        op = str(operation)
        if op not in _COMBINE | _MOVE or node.kwargs:
            return None
        tensors = _tensors(node.meta.get("val"))
        place = [argument.name for argument in operation._schema.arguments].index("group_name")
        name = node.args[place]
        if not tensors or not isinstance(name, str) or not self._can_take(tensors[0].device, name):
            return None
        if not all(_moves(t.dtype) for t in tensors):
            return None
        if op in _COMBINE and not all(_combines(node.args[1].lower(), t.dtype) for t in tensors):
            return None
        self.device = tensors[0].device.type
        return [PREFIX + name if i == place else a for i, a in enumerate(node.args)]

    def _can_take(self, device, name):
        if self.device not in (None, device.type):
            return False
        try:
            _native.check_groups_on(self.place or str(device))
            return _is_plain(_resolve(name), device.type)
        except RuntimeError:  # no such group, or nothing to exchange with
            return False


def _resolve(name):
    return torch._C._distributed_c10d._resolve_process_group(name)


def _is_plain(group, device):
    """Whether nothing but Gloo on the CPU, or NCCL on GPUs, stands behind the group: no wrapper that watches it, no
    backend of somebody else's, none that exchanges nothing.
    """
    c10d = torch._C._distributed_c10d
    kind = {"cpu": "ProcessGroupGloo", "cuda": "ProcessGroupNCCL"}.get(device)
    try:
        return type(group) is c10d.ProcessGroup and type(group._get_backend(torch.device(device))) is getattr(
            c10d, kind or "", None
        )
    except RuntimeError:  # it has none for the device
        return False


class Group:
    """A process group of torch's as Coil uses it."""

    def __init__(self, group, device):
        from torch.distributed import distributed_c10d as c10d

        self.of = weakref.ref(group)
        self.name = group.group_name
        self.ranks = c10d.get_process_group_ranks(group)
        self.rank, self.size = group.rank(), group.size()
        self.store = torch.distributed.PrefixStore("coil", c10d._get_process_group_store(group))
        self.timeout = _timeout(group, device)
        self.turn = 0
        self.decided = {}  # by what a graph exchanges
        self.late = False  # a rank did not come in time: the ranks' turns are not the same any more
        self.is_made = False
        self.warned = False
        self.store.set(f"host/{self.rank}", _machine())
        if self.rank == 0:
            self.store.set("token", uuid.uuid4().hex)

    def agrees(self, exchanges):
        """Whether all ranks have come to a graph that exchanges this. Each asks once; who asks in the same turn for
        something else ends the turn for all.
        """
        if self.size == 1:
            return True
        if exchanges not in self.decided:
            self.decided[exchanges] = not self.late and self._meet(exchanges)
        return self.decided[exchanges]

    def _meet(self, exchanges):
        self.turn += 1
        key = f"turn/{self.turn}"
        self.store.set(f"{key}/{self.rank}", exchanges)
        trouble = self._trouble(key, exchanges, min(_PATIENCE, self.timeout / 2))
        # The first word counts, for all ranks.
        verdict = self.store.compare_set(f"{key}/verdict", "", "torch" if trouble else "own")
        if verdict == b"own":
            return True
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"coil: {trouble or 'a rank did not wait any longer'}: exchanges of such graphs in process group "
                f"'{self.name}' are torch's own on all ranks (the option distribution.own=false asks for that)",
                stacklevel=2,
            )
        return False

    def _trouble(self, key, exchanges, seconds):
        """Why the ranks cannot run a graph together; empty where they can."""
        missing = [r for r in range(self.size) if r != self.rank]
        begin = last = time.monotonic()
        pause = 0.0005
        while missing:
            for r in [r for r in missing if self.store.check([f"{key}/{r}"])]:
                if self.store.get(f"{key}/{r}").decode() != exchanges:
                    return f"rank {r} has come to a graph with other exchanges than rank {self.rank}"
                missing.remove(r)
            if missing and self.store.check([f"{key}/verdict"]):
                return "another rank has not found the same graph on all"
            now = time.monotonic()
            if missing and now - last > seconds and now - begin < self.timeout / 2 and self._any_compiles(missing):
                last = now  # they come to their graph when they have it
            if missing and now - last > seconds:
                self.late = True
                return f"ranks {missing} did not come to the graph of rank {self.rank} within {now - begin:.1f} s"
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return ""

    def _any_compiles(self, ranks):
        store, keys = _store_of_all(), [f"compiling/{self.ranks[r]}" for r in ranks]
        return any(store.check([key]) and store.get(key) == b"1" for key in keys)

    def make(self):
        """Tells the runtime of it. The ranks connect when the first graph runs."""
        if self.is_made:
            return
        self.is_made = True
        hosts = {self.store.get(f"host/{r}") for r in range(self.size)}
        base, prefix = _base(self.store), f"coil/{self.store.get('token').decode()}/"
        address = os.environ.get("COIL_GROUP_ADDRESS") or ("127.0.0.1" if len(hosts) == 1 else _address(base))
        shares = os.environ.get("COIL_GROUP_SHARED") != "0"
        # Where that can be, without Python: a thread that finds a rank gone must not wait for one that holds the GIL.
        served = type(base) is torch.distributed.TCPStore
        store = (base.host, base.port, prefix) if served else torch.distributed.PrefixStore(prefix[:-1], base)
        _native.define_group(PREFIX + self.name, self.rank, self.ranks, store, address, self.timeout, shares)


def _timeout(group, device):
    """In seconds; torch's default where the group has nothing for the device, as that of all processes may not."""
    try:
        timeout = group._get_backend(torch.device(device)).options._timeout
    except (RuntimeError, AttributeError):
        timeout = torch.distributed.distributed_c10d.default_pg_timeout
    return timeout.total_seconds()


def _store_of_all():
    c10d = torch.distributed.distributed_c10d
    return torch.distributed.PrefixStore("coil", c10d._get_process_group_store(c10d._get_default_group()))


@contextlib.contextmanager
def compiling():
    """Others that have come to their graph wait longer for this rank, for as long as this lasts."""
    if not torch.distributed.is_initialized():
        yield
        return
    store, key = _store_of_all(), f"compiling/{torch.distributed.get_rank()}"
    store.set(key, "1")
    try:
        yield
    finally:
        store.set(key, "0")


@functools.cache
def _machine():
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"


def _base(store):
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _address(store):
    """Of this machine, for others: where its way to the store begins, or what its name stands for."""
    if hasattr(store, "host"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((store.host, store.port))
            return probe.getsockname()[0]
    return socket.gethostbyname(socket.gethostname())


_groups = {}  # by their names
_inherited = []  # those of the process that this one was forked from
_forks = 0


def _forked():
    global _forks
    _forks += 1
    _inherited.extend(group.of for group in _groups.values())
    _groups.clear()
    _native.abandon_groups()


os.register_at_fork(after_in_child=_forked)


def _group(group, device):
    if any(inherited() is group for inherited in _inherited):
        raise _native.Error(
            f"process group '{group.group_name}' is that of the process that this one was forked from; start processes "
            "that exchange values by spawning them"
        )
    known = _groups.get(group.group_name)
    if known is None or known.of() is not group:
        known = _groups[group.group_name] = Group(group, device)
    return known


class Choice:
    """Which form of a graph runs, for CompiledGraph.choose: the one that exchanges values itself, or one with torch's
    calls, which `by_torch` compiles (None: there is none to be).
    """

    def __init__(self, graph, device, by_torch):
        groups, text = graph.exchanges
        self.names = [name.removeprefix(PREFIX) for name in groups]
        self.exchanges = hashlib.sha256(text.encode()).hexdigest()
        self.device, self.by_torch = device, by_torch
        self.of, self.forks = None, 0  # the groups that it was chosen for
        self.instead = self.made = None

    def __call__(self):
        if (
            self.of is not None
            and self.forks == _forks
            and all(group() is _resolve(name) for group, name in zip(self.of, self.names))
        ):
            return self.instead
        return self._choose()

    def _choose(self):
        groups = [_resolve(name) for name in self.names]
        was_own = self.of is not None and self.instead is None
        own = self._is_own(groups)
        counters["coil"]["graphs_with_own_exchanges" if own else "graphs_with_exchanges_of_torch"] += 1
        if not own and self.made is None:
            if self.by_torch is None:
                raise _native.Error(
                    "the ranks run different graphs, which exchange values by torch's calls alone, and fallback is off"
                )
            self.made = self.by_torch()
        self.instead = None if own else self.made
        self.of, self.forks = [weakref.ref(group) for group in groups], _forks
        return True if own and was_own else self.instead

    def _is_own(self, groups):
        if not all(_is_plain(group, self.device) for group in groups):
            return False
        known = [_group(group, self.device) for group in groups]
        # Ranks that meet in several groups must find the same in all of them, and so ask all ranks at once.
        asked = known[0] if len(known) == 1 else _group(torch.distributed.group.WORLD, self.device)
        if not asked.agrees(self.exchanges):
            return False
        for group in known:
            group.make()
        return True
