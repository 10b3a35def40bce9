"""Finds the operator whose result first differs from eager's, what setting mends it, and a small program that shows it.

    coil bisect PROGRAM.pt2 [--inputs IN.safetensors] [--set KEY=VALUE ...] [--device DEVICE] [--tolerance X]
                            [--out FOLDER]

The program is run by eager, node by node, and compiled as it is. Where a result is wrong it is compiled up to one node
after the other, by halves: a node is found whose result is wrong while an earlier one's is right. A result that is
right where it is the only one, and wrong beside others, is compiled with as few of those as show it. Then each
optimisation is switched off by itself, and what comes before the node is replaced by eager's values, as much of it as
leaves the difference. FOLDER gets the rest as `shown.pt2`, with inputs, for `coil bisect` again, and `explain.txt`, in
which its kernels are.

A result is wrong where its type or sizes are, where it is NaN or infinite and eager's is not, or where the norm of the
difference is more than the tolerance times eager's norm.
"""

import argparse
import contextlib
import copy
import logging
import pathlib
import sys

import torch
from torch._subclasses import FakeTensor

from . import _native
from .graph import translate
from .nodes import is_random, is_view

# What a user may switch off, and what each is called in `coil compile --help`.
SWITCHES = (
    ("fuse", "false"),
    ("fuse_epilogues", "false"),
    ("fold_constants", "false"),
    ("pack_weights", "false"),
    ("winograd", "false"),
    ("memory.order", "false"),
    ("cpu.isa", "avx2"),
)
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class Program:
    """A graph with flat inputs: eager's value of each node, and Coil's of any."""

    def __init__(self, gm, inputs, weights, settings, device):
        """`weights`: how many of the inputs, the first ones, are constants of the compiled program."""
        gm = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))  # the caller's stays as it is
        self.gm, self.inputs, self.weights, self.settings, self.device = gm, inputs, weights, settings, device
        _drop_checks_of_records(gm)
        _tell_offsets(gm)
        self.nodes = list(gm.graph.nodes)
        self.values = _Recorder(gm).values_of(inputs)
        self.candidates = [
            n for n in self.nodes if n.op == "call_function" and isinstance(self.values[n], torch.Tensor)
        ]
        (results,) = (n.all_input_nodes for n in self.nodes if n.op == "output")
        self.results = [n for n in self.candidates if n in results]
        self.beside = []  # results that are compiled with the one that is looked at

    def prefix(self, node):
        """The graph up to a node, which is its result, and to those beside it."""
        graph, copies = torch.fx.Graph(), {}
        last = max([node, *self.beside], key=self.nodes.index)
        for each in self.nodes:
            copies[each] = graph.node_copy(each, copies.__getitem__)
            if each is last:
                break
        return self.ending(graph, copies, node)

    def from_values(self, node, kept):
        """(graph, inputs) of a node and the `kept` ones before it: eager's values of others come as inputs."""
        graph, copies, given = torch.fx.Graph(), {}, []
        kept = {node, *kept, *self.beside}
        read = lambda: {i for n in kept for i in n.all_input_nodes} - kept
        while several := {n for n in read() if isinstance(self.values.get(n), (tuple, list))}:
            kept |= several  # no input holds several results
        wanted = read()
        for each in self.nodes:
            if each in wanted and each.op != "get_attr":
                copies[each] = graph.placeholder(each.name)
                copies[each].meta = {"val": each.meta["val"]}
                given.append(self.values[each])
            elif each in kept or each in wanted:
                copies[each] = graph.node_copy(each, copies.__getitem__)
        return self.ending(graph, copies, node), given

    def ending(self, graph, copies, node):
        graph.output(tuple(copies[n] for n in (node, *self.beside)))
        graph.eliminate_dead_code()
        return torch.fx.GraphModule(self.gm, graph)

    def compiled(self, gm, inputs, settings=None, weights=0, whole=False):
        """(the first result by Coil, or all of the `whole`, the report), or the error as text."""
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        frozen = dict(zip(placeholders[:weights], inputs))
        try:
            graph = translate(gm, "main", frozen)
            program = graph.compile({**self.settings, **(settings or {})}, None, [], self.device)
            copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
            made = program(*copies)
            return (made if whole else made[0]), program.report
        except (_native.Error, RuntimeError) as error:
            return f"{type(error).__name__}: {error}", ""

    def whole(self, tolerance):
        """[(node, what is wrong)] of the results of the program as it is."""
        first, *self.beside = self.results
        made, _ = self.compiled(self.prefix(first), self.inputs, weights=self.weights, whole=True)
        self.beside = []
        if isinstance(made, str):
            raise _native.Error(f"the program gives no results to compare: {made}")
        found = [(n, difference(m, self.values[n], tolerance)) for n, m in zip(self.results, made)]
        return [(n, why) for n, why in found if why]

    def difference(self, node, tolerance, settings=None):
        """What is wrong with a node's result in the program up to it, or nothing."""
        made, _ = self.compiled(self.prefix(node), self.inputs, settings, self.weights)
        return difference(made, self.values[node], tolerance)


def _drop_checks_of_records(gm):
    """What only asks whether a tensor is as torch recorded it computes nothing."""
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_tensor_metadata.default):
        gm.graph.erase_node(node)


def _tell_offsets(gm):
    """Records anew where views begin, which archives that torch loads do not say."""
    value = lambda arg: torch.fx.node.map_arg(arg, lambda node: node.meta.get("val"))
    for node in gm.graph.nodes:
        recorded = node.meta.get("val")
        if node.op != "call_function" or not is_view(node) or not isinstance(recorded, FakeTensor):
            continue
        with contextlib.suppress(RuntimeError, TypeError, ValueError), recorded.fake_mode:
            seen = node.target(*value(node.args), **value(node.kwargs))
            if seen.shape == recorded.shape:
                node.meta["val"] = seen


class _Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps what each node gave, as it was when it was made."""

    def values_of(self, inputs):
        self.kept = {}
        with torch.no_grad():
            self.run(*[v.clone() if isinstance(v, torch.Tensor) else v for v in inputs])
        return self.kept

    def run_node(self, node):
        value = super().run_node(node)
        self.kept[node] = value.clone() if isinstance(value, torch.Tensor) else value
        return value


def difference(got, want, tolerance=None):
    if not isinstance(got, torch.Tensor):
        return str(got)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{list(got.shape)}, in eager {want.dtype}{list(want.shape)}"
    if not (want.is_floating_point() or want.is_complex()):
        wrong = int((got != want).sum())
        return f"{wrong} of {want.numel()} elements differ" if wrong else ""
    wide = torch.complex128 if want.is_complex() else torch.float64
    g, w = got.to("cpu", wide), want.to("cpu", wide)
    finite = w.isfinite()
    if not torch.equal(g.isnan(), w.isnan()) or not torch.equal(g[~finite & ~w.isnan()], w[~finite & ~w.isnan()]):
        return "NaN or infinities elsewhere than in eager"
    limit = TOLERANCES.get(want.dtype, 1e-4) if tolerance is None else tolerance
    apart, norm = (g[finite] - w[finite]).norm().item(), w[finite].norm().item()
    return f"the difference is {apart / max(norm, 1e-300):.2g} of the result" if apart > limit * norm + 1e-300 else ""


class Bisection:
    """The search, told step by step."""

    def __init__(self, program, tolerance, tell):
        self.program, self.tolerance, self.tell = program, tolerance, tell

    def wrong(self, node, settings=None):
        return self.program.difference(node, self.tolerance, settings)

    def first_wrong(self):
        """(node, what is wrong): one whose result is wrong, while one before it is right. None where all results of
        the program are right.
        """
        nodes = self.program.candidates
        for result in self.program.results:
            if why := self.wrong(result):
                break
        else:
            return None
        good, bad = -1, nodes.index(result)
        while bad - good > 1:
            middle = (good + bad) // 2
            found = self.wrong(nodes[middle])
            self.tell(f"  up to {nodes[middle].name}: {found or 'right'}")
            good, bad, why = (good, middle, found) if found else (middle, bad, why)
        return nodes[bad], why

    def wrong_beside(self, node):
        """What is wrong with a result beside as few others as show it, which are `beside` it from here on. Nothing
        where it is right.
        """
        self.program.beside = [n for n in self.program.results if n is not node]
        why = self.wrong(node)
        count = len(self.program.beside)
        while why and count > 0:
            count = (count + 1) // 2
            for first in range(0, len(self.program.beside), count):
                before = self.program.beside
                self.program.beside = before[:first] + before[first + count :]
                if found := self.wrong(node):
                    why = found
                    break
                self.program.beside = before
            else:
                count = count if count > 1 else 0
        return why

    def mended_by(self, node):
        return [f"{key}={value}" for key, value in SWITCHES if not self.wrong(node, {key: value})]

    def smallest(self, node):
        """(graph, inputs): the node and as few before it as still show the difference; None where only the whole
        program up to it does.
        """
        before = _ancestors(node)
        count, shown = 0, None
        while shown is None and count < len(before):
            shown = self.shown_with(node, before[:count])
            last, count = count, max(1, 2 * count)
        if shown is None:
            return None
        fewest = last // 2 + 1
        while fewest < last:
            middle = (fewest + last) // 2
            if found := self.shown_with(node, before[:middle]):
                shown, last = found, middle
            else:
                fewest = middle + 1
        return shown

    def shown_with(self, node, kept):
        gm, inputs = self.program.from_values(node, kept)
        made, _ = self.program.compiled(gm, inputs)
        return (gm, inputs) if difference(made, self.program.values[node], self.tolerance) else None


def _ancestors(node):
    """Calls that a node depends on, the nearest first."""
    found, waiting = {}, [node]
    while waiting:
        for each in waiting.pop(0).all_input_nodes:
            if each.op == "call_function" and each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def where(node):
    trace = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if "File" in line]
    return trace[-1] if trace else ""


def _steps_of(report, name):
    """The steps of a report that compute a node."""
    steps, found = [], []
    for line in report.splitlines():
        if line[:5].strip().isdigit():
            steps.append([])
        if steps:
            steps[-1].append(line)
    for step in steps:
        computed = next((line for line in step if line.strip().startswith("computes ")), "")
        if name in computed.replace(",", " ").split():
            found += step[:1]
    return found


def _flat_program(exported, inputs, settings, device):
    """An exported program with all that it takes as flat inputs: weights first."""
    if any(n.op == "call_function" and _writes(n) for n in exported.graph.nodes):
        exported = exported.run_decompositions({})  # without writes in place
    signature, state = exported.graph_signature, exported.state_dict
    values = []
    for spec, node in zip(signature.input_specs, (n for n in exported.graph.nodes if n.op == "placeholder")):
        if spec.target is not None:
            values.append(state[spec.target] if spec.target in state else exported.constants[spec.target])
        else:
            values.append(inputs.pop(0))
        if isinstance(values[-1], torch.Tensor):
            values[-1] = values[-1].detach().to(device)
    weights = sum(spec.target is not None for spec in signature.input_specs)
    written = {spec.target for spec in signature.output_specs if "MUTATION" in str(spec.kind)}
    if written & {spec.target for spec in signature.input_specs}:
        weights = 0  # a weight that is written to is no constant
    return Program(exported.graph_module, values, weights, settings, device)


def _writes(node):
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _inputs_of(exported, file):
    names = exported.graph_signature.user_inputs
    if file:
        from safetensors.torch import load_file

        # `state.h` of `coil run` is the placeholder `state_h`.
        given = {name.replace(".", "_"): tensor for name, tensor in load_file(file).items()}
        if missing := [n for n in names if n not in given]:
            raise _native.Error(f"{file}: no {', '.join(missing)}; the program takes {', '.join(names)}")
        return [given[n] for n in names]
    if exported.example_inputs is None:
        raise _native.Error("no sample inputs in this program: give --inputs")
    args, kwargs = exported.example_inputs
    return torch.utils._pytree.tree_leaves((args, kwargs))


def bisect(exported, inputs=None, *, settings=None, device="cpu", tolerance=None, out=None, tell=print):
    """Of an exported program and flat inputs (its own samples where there are none): the name of the operator found,
    or None where every result is right. Tells what it finds line by line; with `out`, a folder, writes what shows it.
    """
    inputs = list(inputs) if inputs is not None else _inputs_of(exported, None)
    _native.check_settings(settings or {})
    if device != "cpu" and not torch.cuda.is_available():
        raise _native.Error(f"{device}: torch finds no GPU on which eager could compute what to compare with")
    if drawing := next((n for n in exported.graph.nodes if is_random(n)), None):
        raise _native.Error(f"{drawing.target} draws random numbers, which are others than eager's")
    program = _flat_program(exported, inputs, settings or {}, device)
    search = Bisection(program, tolerance, tell)
    tell(f"{len(program.candidates)} results to look at")
    found = _first_wrong(search, tell)
    if found is None:
        tell("every result is as in eager")
        return None
    node, why = found
    beside = ", ".join(n.name for n in program.beside)
    tell(f"first wrong: {node.name} ({node.target}): {why}" + (f"; beside {beside}" if beside else ""))
    if place := where(node):
        tell(f"  {place}")
    _, report = program.compiled(program.prefix(node), program.inputs, weights=program.weights)
    for step in _steps_of(report, node.name):
        tell(f"  computed by step {step.strip()}")
    mended = search.mended_by(node)
    tell("right with any of: " + ", ".join(mended) if mended else "no setting by itself makes it right")
    _show(search, node, report, out, tell)
    return str(node.target)


def _first_wrong(search, tell):
    """(node, what is wrong), if a result of the program as it is compiled is wrong."""
    program = search.program
    if not program.results or not (wrong := program.whole(search.tolerance)):
        return None
    for node, why in wrong:
        tell(f"  {node.name}, a result: {why}")
    if found := search.first_wrong():
        return found
    tell("  each is right by itself")
    return next(((node, why) for node, _ in wrong if (why := search.wrong_beside(node))), wrong[-1])


def _show(search, node, report, out, tell):
    shown = search.smallest(node)
    program = search.program
    gm, inputs = shown or (program.prefix(node), program.inputs)
    calls = sum(n.op == "call_function" for n in gm.graph.nodes)
    tell(f"shown by {calls} operator{'s' * (calls != 1)}" + ("" if shown else ", all that comes before"))
    if shown:
        _, report = program.compiled(gm, inputs)
    if out is None:
        return
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        (folder / "explain.txt").write_text(report)
    torch.export.save(torch.export.export(gm, tuple(inputs)), folder / "shown.pt2")
    tell(f"written to {folder / 'shown.pt2'}")


def _loaded(file):
    logging.disable(logging.WARNING)  # torch logs a traceback of each way in which it failed
    try:
        return torch.export.load(file)
    except Exception as error:  # whatever torch and zipfile raise of archives that are none
        raise _native.Error(f"{file} cannot be read as an exported program: {error}") from error
    finally:
        logging.disable(logging.NOTSET)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="coil bisect", description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=pathlib.Path, help="an exported program (.pt2)")
    parser.add_argument("--inputs", type=pathlib.Path, help="IN.safetensors (default: the program's samples)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the compiler")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tolerance", type=float, help="of the difference's norm, as a part of the result's")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bisect"), help="default: bisect")
    args = parser.parse_args(arguments)
    try:
        if not args.program.is_file():  # torch tells of this with a traceback
            raise _native.Error(f"cannot open {args.program}")
        exported = _loaded(args.program)
        if wrong := next((s for s in args.set if "=" not in s), None):
            raise _native.Error(f"--set {wrong}: a setting is KEY=VALUE")
        settings = dict(s.split("=", 1) for s in args.set)
        inputs = _inputs_of(exported, args.inputs)
        found = bisect(exported, inputs, settings=settings, device=args.device, tolerance=args.tolerance, out=args.out)
    except (_native.Error, OSError, ValueError, RuntimeError) as error:
        print(f"coil: error: {error}", file=sys.stderr)
        return 1
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main())
