"""`memory.budget` and `memory.offload`: which of the ways to divide a graph of both directions has the lowest planned
peak, and what would lower it where there is not enough memory.
"""

import dataclasses
import math
import resource

import torch

from . import _native, joint, offload
from .graph import translate

_DIRECTIONS = "forward", "backward"
_UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


class Partitioner:
    """Divides a graph of both directions, for AOTAutograd to call, and says what its graphs take."""

    def __init__(self, options):
        self.options = options
        self.joint = self.chosen = None

    def __call__(self, graph, inputs, **torchs):
        """A budget is an upper bound, in tenths: of torch's answers for it and for all larger ones this takes the one
        with the lowest planned peak, since its answers' peaks may rise as a budget falls.
        """
        joint.prepare(graph, self.options.fallback_random, spares_memory=self.options.budget < 1)
        self.joint, self.torchs = graph, torchs
        least = math.floor(self.options.budget * 10 + 1e-9)
        if least == 10:
            self.chosen = _Division(1.0, self._divided(graph, inputs, 1.0))
        else:
            self.chosen = min(self._divisions(least), key=_Division.peak)
        if self.options.offload:
            self.chosen = min(self._moved(self.chosen), key=_Division.peak)
        return self.chosen.graphs

    def _moved(self, division):
        """The same for the share that may be moved to the host: more moved values may have the higher peak too."""
        ways = offload.moved(division.graphs, self.torchs["num_fwd_outputs"], self.options)
        found = [_Division(division.budget, graphs) for graphs in ways]
        if len(found) > 1:
            _measure(found, self.options)
        return found

    def _divided(self, graph, inputs, budget):
        graphs = joint.divided(graph, inputs, budget, **self.torchs)
        if not self.options.record:  # what is recorded keeps its memory
            joint.tell_what_goes(*graphs)
        return graphs

    def _divisions(self, least):
        """By budgets from 1 down to `least` tenths; those that keep the same only once."""
        found, known = [], set()
        for tenths in range(10, least - 1, -1):
            graphs = self._divided(joint.copied(self.joint), (), tenths / 10)
            kept = str(graphs[0].graph.output_node().args[0])
            if kept not in known:
                known.add(kept)
                found.append(_Division(tenths / 10, graphs))
        _measure(found, self.options)
        return found

    def advice(self, name, needed):
        """The end of an error's text: what would lower the memory of a graph (`forward`, `backward`, `inference`) that
        needs so many bytes at once. Raises nothing.
        """
        try:
            return self._about_budgets(name, needed) + _other_ways(self.options, name in _DIRECTIONS)
        except Exception:  # the error that is told of is the one that counts
            return _other_ways(self.options, name in _DIRECTIONS)

    def _about_budgets(self, name, needed):
        if self.joint is None or name not in _DIRECTIONS:
            return ""
        direction = _DIRECTIONS.index(name)
        limit = bytes_in(self.options.settings.get("memory.limit", "0"))
        refused = 0 < limit < needed
        free = limit if refused else free_bytes(self.options.device or _device_of(self.joint))
        lower = [d for d in self._divisions(0) if d.budget < self.options.budget]
        divisions = [self.chosen, *((self._moved(d)[-1] for d in lower) if self.options.offload else lower)]
        _measure(divisions, self.options)
        scale = needed / max(1, self.chosen.needs[direction])  # sizes may be others, and libraries take scratch memory
        if not refused and free is not None:
            free += scale * self.chosen.kept * direction  # which is there while the backward graph runs
        takes = [(scale * max(d.needs if refused else d.peaks), d.budget) for d in divisions]
        return _told(takes[1:], free, takes[0][0])


@dataclasses.dataclass
class _Division:
    """`peaks`: of the forward graph and of the backward graph, with what is kept between them; `needs`: of each graph's
    own memory, all results counted throughout.
    """

    budget: float
    graphs: tuple
    peaks: tuple = ()
    needs: tuple = ()
    kept: int = 0

    def peak(self):
        return max(self.peaks, default=0)


def _measure(divisions, options):
    """All as their plans have it, or all by estimate where sizes are free or a graph has no plan by itself."""
    try:
        for division in divisions:
            plans = _planned(division.graphs, options)
            division.peaks, division.needs = (tuple(plan[k] for plan in plans) for k in ("peak", "need"))
            division.kept = plans[1]["kept"]
    except (_native.Error, _FreeSizes):
        for division in divisions:
            peaks = map(joint.peak_bytes, division.graphs)
            division.peaks = tuple(peak + offload.bytes_ahead(gm) for peak, gm in zip(peaks, division.graphs))
            division.kept = joint.kept_bytes(division.graphs[1])
            division.needs = division.peaks[0], max(0, division.peaks[1] - division.kept)


def planned_peaks(graphs, options):
    """Of a forward and a backward graph of fixed sizes, with what is kept between them."""
    return tuple(plan["peak"] for plan in _planned(graphs, options))


class _FreeSizes(Exception):
    pass


def _place(traced, options):
    return options.device or traced.device


def _planned(graphs, options):
    for gm in graphs:
        if not all(joint.has_fixed_size(node.meta.get("val")) for node in gm.graph.find_nodes(op="placeholder")):
            raise _FreeSizes
    going = {}, joint.kept_memory(*graphs)
    return [_plan_of(*each, options) for each in zip(graphs, _DIRECTIONS, going)]


def _plan_of(gm, name, going, options):
    traced = translate(gm, name, None, options.hands_over, options.fallback_random)
    place = _place(traced, options)
    settings = {key: value for key, value in options.settings.items() if key != "memory.limit"}
    plan = traced.planned_peaks(settings, place, going)
    peak = peak_of_runs(plan, place)
    return {"peak": peak + offload.bytes_ahead(gm), "need": plan["arena"] + plan["outputs"], "kept": plan["kept"]}


def peak_of_runs(plan, place):
    """Most bytes at once of a run as it was planned: its temporaries lie in pieces, but on the CPU in one arena if that
    is smaller than 256 KiB (Binding::takes_memory_for_each_run).
    """
    return plan["whole" if place.startswith("cpu") and plan["arena"] < 1 << 18 else "pieces"]


# --- What an error says


def _told(takes, free, now):
    """`takes`: bytes and budgets, from the highest budget down."""
    if free is None:
        lower = [f"{budget:g}: {in_units(bytes)}" for bytes, budget in takes if bytes < now]
        return f"; planned peaks by memory.budget: {', '.join(lower)}" if lower else ""
    where = f"of {in_units(free)} that there are, libraries' scratch memory not counted"
    for bytes, budget in takes:
        if bytes <= free:
            return f"; memory.budget={budget:g} would fit: a planned peak of {in_units(bytes)} {where}"
    bytes, budget = min([*takes, (now, None)], key=lambda take: take[0])
    least = f"memory.budget={budget:g}" if budget is not None else "the present one"
    return f"; no memory.budget would fit: the lowest planned peak is {in_units(bytes)}, with {least}, {where}"


def _other_ways(options, trains):
    """Settings that lower memory in general, as far as they are not made yet."""
    ways = []
    if options.settings.get("memory.order") == "false":
        ways.append("memory.order=true")
    if trains and options.offload < 1:
        ways.append("memory.offload=1 on a GPU")
    if options.record:
        ways.append("no recorded calls, which keep their memory")
    if options.freeze:
        ways.append("weights that are not held packed (freezing off)")
    return f"; what {'else ' if trains else ''}lowers memory: {', '.join([*ways, 'a smaller batch'])}"


def in_units(bytes):
    for unit, power in reversed(_UNITS.items()):
        if bytes >= 1 << power:
            return f"{bytes / (1 << power):.1f} {unit}"
    return f"{int(bytes)} bytes"


def bytes_in(text):
    """Of a setting such as `64MiB`, which the compiler has read already."""
    number = text.removesuffix("".join(c for c in text if c.isalpha()))
    return int(number or 0) << _UNITS.get(text[len(number) :], 0)


def _device_of(graph_module):
    values = (node.meta.get("val") for node in graph_module.graph.find_nodes(op="placeholder"))
    return next((str(v.device) for v in values if isinstance(v, torch.Tensor) and v.device.type != "cpu"), "cpu")


def free_bytes(device):
    """What can be allocated there now; None where that is not known."""
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            return None
        at = torch.device(device)
        return torch.cuda.mem_get_info(at)[0] + torch.cuda.memory_reserved(at) - torch.cuda.memory_allocated(at)
    if not device.startswith("cpu"):
        return None
    try:
        with open("/proc/meminfo") as info:
            free = next(int(line.split()[1]) << 10 for line in info if line.startswith("MemAvailable"))
        with open("/proc/self/statm") as pages:
            taken = int(pages.read().split()[0]) * resource.getpagesize()
    except (OSError, StopIteration):
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return free if most == resource.RLIM_INFINITY else min(free, max(0, most - taken))
