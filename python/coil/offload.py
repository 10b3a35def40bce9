"""`memory.offload`: values that a forward graph keeps for its backward graph wait in page-locked memory of the host.

Both graphs call torch where values move. The forward one begins to copy a value out as soon as it is made, on a stream
of its own, and lets go of the value's memory when _AHEAD more have been made and the copy is done. The backward one
takes values in the order in which it reads them; while it computes with one, the next _AHEAD are on their way back.
AOTAutograd keeps the host's tensors; the graphs themselves have tokens, of a byte each, in their places.
"""

import collections
import functools
import logging
import operator
import threading

import torch

from . import _native
from .adder import Adder, dense_order
from .joint import copied
from .nodes import bytes_of, owners, size_of

aten = torch.ops.aten

_DEVICES = {"cuda"}  # those whose memory is not the host's
_LEAST = 1 << 20  # bytes; below that a copy costs more than it frees
_AHEAD = 2  # copies that are on their way while the graph goes on

_library = torch.library.Library("coil", "FRAGMENT")
_library.define(
    "offload(Tensor? value, int slot, Tensor? done, int finished, Tensor? behind, *, Device device) -> Tensor"
)
_library.define("reload(Tensor token, int[] physical_layout, int slot, *, ScalarType dtype) -> Tensor")
send, fetch = torch.ops.coil.offload.default, torch.ops.coil.reload.default


@torch.library.register_fake("coil::offload", lib=_library)
def _(value, slot, done, finished, behind, *, device):
    return torch.empty(1, dtype=torch.uint8, device=device)


@torch.library.register_fake("coil::reload", lib=_library)
def _(token, physical_layout, slot, *, dtype):
    return torch.empty_permuted(token.shape, physical_layout, dtype=dtype, device=token.device)


@torch.library.impl("coil::offload", "CompositeExplicitAutograd", lib=_library)
def _(value, slot, done, finished, behind, *, device):
    call = _running()
    if done is not None:
        call.end(finished, done)
    if value is not None:
        call.send(slot, value)
    return torch.empty(1, dtype=torch.uint8, device=device)


@torch.library.impl("coil::reload", "CompositeExplicitAutograd", lib=_library)
def _(token, physical_layout, slot, *, dtype):
    return _running().take(slot)


# --- What runs


class _Streams:
    """Copies between a GPU and page-locked memory, on a stream beside the one that computes. Memory of the GPU is
    taken, read and given back in the order of the stream that computes, which waits for a copy at its end.
    """

    _beside = {}  # streams by device

    def __init__(self, device):
        self.device = device
        if device not in self._beside:
            self._beside[device] = torch.cuda.Stream(device)
        self.stream = self._beside[device]
        self.events = {}  # of copies that are not waited for yet, by slot

    def send(self, slot, value):
        host = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, pin_memory=True)
        self._copy(slot, host, value)
        return host

    def fetch(self, slot, host):
        value = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=self.device)
        self._copy(slot, value, host)
        return value

    def end(self, slot):
        """What the computing stream does from now on comes behind the copy."""
        torch.cuda.current_stream(self.device).wait_event(self.events.pop(slot))

    def wait(self):
        """For the host to read what was sent."""
        self.stream.synchronize()

    def _copy(self, slot, to, value):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            to.copy_(value, non_blocking=True)
            self.events[slot] = self.stream.record_event()


_MOVERS = {"cuda": _Streams}


class _Sending:
    """A call of a forward graph."""

    def __init__(self, device):
        self.mover, self.hosts = _MOVERS[device.type](device), {}
        self.addresses = {}  # of what is on its way

    def send(self, slot, value):
        self.addresses[slot] = value.data_ptr()
        self.hosts[slot] = self.mover.send(slot, value)

    def end(self, slot, value):
        self.mover.end(slot)
        if value.data_ptr() != self.addresses.pop(slot):
            # The program gave a copy of the value, whose memory may have been another's before the end.
            raise _native.Error("internal error: a value moved while it was on its way to the host")


class _Fetching:
    """A call of a backward graph: `hosts` in the order in which it takes them."""

    def __init__(self, device, hosts):
        self.mover = _MOVERS[device.type](device)
        self.waiting, self.coming = collections.deque(enumerate(hosts)), {}
        self.begin(1)

    def begin(self, count):
        while self.waiting and len(self.coming) < count:
            slot, host = self.waiting.popleft()
            self.coming[slot] = self.mover.fetch(slot, host)

    def take(self, slot):
        while slot not in self.coming:
            self.begin(len(self.coming) + 1)
        value = self.coming.pop(slot)
        self.mover.end(slot)
        self.begin(_AHEAD)
        return value


_calls = threading.local()  # of graphs that this thread is in, the innermost last


def _running():
    return _calls.stack[-1]


class _Call:
    """While a graph runs that moves values."""

    def __init__(self, call):
        self.call = call

    def __enter__(self):
        if not hasattr(_calls, "stack"):
            _calls.stack = []
        _calls.stack.append(self.call)
        return self.call

    def __exit__(self, *error):
        _calls.stack.pop()


class _Moving:
    """A compiled graph that values move out of or into, for AOTAutograd to call."""

    def __init__(self, graph, device, places):
        self.graph, self.device, self.places = graph, device, places
        self._boxed_call, self.__name__ = True, "coil"  # of the object itself, since torch copies what it wraps

    @staticmethod
    def arguments(args):
        if len(args) != 1 or not isinstance(args[0], list):
            return list(args)
        given = list(args[0])
        args[0].clear()
        return given


class Forward(_Moving):
    """`places`: of the values among the results, by slot."""

    def __call__(self, *args):
        with _Call(_Sending(self.device)) as call:
            results = list(self.graph(self.arguments(args)))
        if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
            call.mover.wait()  # hooks may read what is kept
        for slot, place in enumerate(self.places):
            results[place] = call.hosts[slot]
        return results


class Backward(_Moving):
    """`places`: of the values among the inputs, by slot."""

    def __call__(self, *args):
        given = self.arguments(args)
        hosts = [given[place] for place in self.places]
        for place, host in zip(self.places, hosts):
            given[place] = torch.empty(1, dtype=torch.uint8, device=self.device).expand(host.shape)
        with _Call(_Fetching(self.device, hosts)):
            del hosts
            return self.graph(given)


def moving_forward(gm, graph):
    """The compiled graph as AOTAutograd calls it, and the positions of results that move."""
    calls = gm.graph.find_nodes(op="call_function", target=send)
    if not calls:
        return graph, set()
    results = gm.graph.output_node().args[0]
    places = {node.args[3]: place for place, node in enumerate(results) if node in calls}
    return Forward(graph, calls[0].kwargs["device"], [places[slot] for slot in range(len(places))]), {*places.values()}


def moving_backward(gm, graph):
    """The compiled graph as AOTAutograd calls it."""
    calls = sorted(gm.graph.find_nodes(op="call_function", target=fetch), key=lambda node: node.args[2])
    if not calls:
        return graph
    inputs = gm.graph.find_nodes(op="placeholder")
    return Backward(graph, calls[0].meta["val"].device, [inputs.index(node.args[0]) for node in calls])


# --- What is chosen


def moved(graphs, num_fwd_outputs, options):
    """The two graphs as they are, and with more and more of what is kept moved to the host: tenths of its bytes, up to
    the options' share.
    """
    if not any(node.meta["val"].device.type in _DEVICES for node in _kept(graphs[0], num_fwd_outputs)):
        _tell("memory.offload moves nothing: what the forward graph keeps lies in the host's memory")
        return [graphs]
    if not options.hands_over:
        raise _native.Error("memory.offload moves values by calls of torch, which fallback=false rules out")
    shares = [tenth / 10 for tenth in range(1, 11) if tenth / 10 < options.offload]
    made = {}
    for share in (*shares, options.offload):
        chosen = _chosen(*graphs, num_fwd_outputs, share)
        if chosen and tuple(chosen) not in made:
            made[tuple(chosen)] = _with_moves(graphs, chosen, num_fwd_outputs)
    return [graphs, *made.values()]


@functools.cache
def _tell(message):
    logging.getLogger("coil").warning(message)


def _with_moves(graphs, chosen, results):
    """The two graphs with these values moved to the host. `results`: how many of the forward graph's are the program's
    own.
    """
    forward, backward = map(copied, graphs)
    place = {node.name: k for k, node in enumerate(graphs[0].graph.nodes)}
    nodes = list(forward.graph.nodes)
    slots = _fetch_at_readers(backward, {node.name for node in chosen})
    _send_when_made(forward, [nodes[place[node.name]] for node in chosen], slots, results)
    return forward, backward


def bytes_ahead(backward):
    """The most that values take on their way back while the graph computes with others."""
    sizes = [size_of(node) for node in backward.graph.find_nodes(op="call_function", target=fetch)]
    return sum(sorted(sizes)[-_AHEAD - 1 :])


def _kept(forward, results):
    """Tensors that are kept for the backward graph and that nobody else has."""
    own = owners(forward)
    returned = [node for node in forward.graph.output_node().args[0] if isinstance(node, torch.fx.Node)]
    theirs = set(forward.graph.output_node().args[0][:results])
    others = {own[node] for node in returned if node in theirs}
    count = collections.Counter(own[node] for node in returned if node not in theirs)
    for node in returned:
        if node not in theirs and isinstance(node.meta.get("val"), torch.Tensor):
            if own[node] not in others and own[node].op != "placeholder" and count[own[node]] == 1:
                yield node


def _chosen(forward, backward, results, share):
    """Those made first, which are read last. The last ones that are made stay: the backward graph begins with them."""
    order = {node: k for k, node in enumerate(forward.graph.nodes)}
    kept = sorted(_kept(forward, results), key=order.__getitem__)
    inputs = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    may = [node for node in kept if node.name in inputs and _can_move(node, inputs[node.name])]
    left = share * sum(size_of(node) for node in kept)
    chosen = []
    for node in may[:-_AHEAD]:
        size = size_of(node)
        if node.meta["val"].device == may[0].meta["val"].device and size <= left:
            chosen.append(node)
            left -= size
    return chosen


def _can_move(node, given):
    value = node.meta["val"]
    return (
        value.device.type in _DEVICES
        and bytes_of(value) >= _LEAST
        and dense_order(value) is not None
        and len(given.users) > 0
        and all(user.op != "output" for user in given.users)
    )


def _fetch_at_readers(backward, names):
    """Has the backward graph take each of these inputs from the host in front of what first reads it. Gives the slots
    by name, in the order in which it does.
    """
    graph = backward.graph
    place = {node: k for k, node in enumerate(graph.nodes)}
    inputs = [node for node in graph.find_nodes(op="placeholder") if node.name in names]
    first = {node: min(node.users, key=place.__getitem__) for node in inputs}
    slots = {}
    for node in sorted(inputs, key=lambda node: place[first[node]]):
        value, readers = node.meta["val"], list(node.users)
        with value.fake_mode:
            token = torch.empty(1, dtype=torch.uint8, device=value.device).expand(value.shape)
            node.meta = {key: v for key, v in node.meta.items() if key != "tensor_meta"}
            node.meta |= {"val": token, "moved": True}
            call = Adder(graph, first[node].prev, first[node].meta)
            made = call(fetch, node, dense_order(value), len(slots), dtype=value.dtype)
        for reader in readers:
            reader.replace_input_with(node, made)
        slots[node.name] = len(slots)
    backward.recompile()
    return slots


def _send_when_made(forward, chosen, slots, results):
    """Has the forward graph send each of these values to the host behind what makes it, and give a token in its place.
    `chosen` is in the order in which they are made. The call that ends a copy is given the value, which keeps its
    memory until then.
    """
    graph, tokens, behind = forward.graph, {}, None
    end = graph.output_node()
    for k in range(len(chosen) + _AHEAD):
        value = chosen[k] if k < len(chosen) else None
        done = chosen[k - _AHEAD] if k >= _AHEAD else None
        slot, finished = (-1 if node is None else slots[node.name] for node in (value, done))
        near = end.prev if value is None else _end_of(value)
        like = chosen[0].meta["val"]
        with like.fake_mode:
            call = Adder(graph, near, near.meta)
            tokens[done] = behind = call(send, value, slot, done, finished, behind, device=like.device)
    kept = [tokens.get(node, node) if node is not None else node for node in end.args[0][results:]]
    end.args = ([*end.args[0][:results], *kept],)
    forward.recompile()


def _end_of(node):
    """The last node that the value's memory is made by: behind the items of an operator with several results."""
    following = node
    while following.next.target is operator.getitem:
        following = following.next
    return following
