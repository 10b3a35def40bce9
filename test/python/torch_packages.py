"""Programs as packages for torch (`--emit=aoti`), loaded by torch and compared with eager: values, dtypes, strides,
what outputs view, and what calls write to.
"""

import copy

import torch
import torch._inductor.package
from torch.utils import _pytree as pytree

from coil_harness import coil_ok, device, difference, path_name


def on_device(value):
    """A module, or arguments, where this run of the tests has its programs."""
    if device() == "cpu":
        return value
    if isinstance(value, torch.nn.Module):
        return value.to(device())
    return pytree.tree_map(lambda x: x.to(device()) if isinstance(x, torch.Tensor) else x, value)


def export(module, args, archive, kwargs=None, dynamic=None, decomposed=False):
    """Writes the archive, and gives back the program and, of each flat argument, whether export fixed it."""
    with torch.no_grad():
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic)
        if decomposed:
            program = program.run_decompositions()
        torch.export.save(program, archive)
    specs = program.graph_signature.input_specs
    given = [s for s in specs if s.kind == torch.export.graph_signature.InputKind.USER_INPUT]
    return program, [isinstance(s.arg, torch.export.graph_signature.ConstantArgument) for s in given]


def package(archive, *options):
    """The package of an archive, beside it."""
    path = archive.with_suffix(".aoti.pt2")
    coil_ok("compile", archive, "-o", path, "--emit", "aoti", *options)
    return path


def load(path, num_runners=1, **options):
    if num_runners == 1:
        return torch._inductor.aoti_load_package(str(path), **options)
    return torch._inductor.package.load_package(str(path), num_runners=num_runners, **options)


def flat_given(args, kwargs, fixed):
    """Arguments as torch's loader passes them on: tensors alone, numbers that export left free among them."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    assert len(flat) == len(fixed)
    as_tensors = [x if f or isinstance(x, torch.Tensor) else torch.tensor(x) for x, f in zip(flat, fixed)]
    return pytree.tree_unflatten(as_tensors, spec)


def strides_that_count(t):
    """Of dimensions whose index takes more than one value; none where there are no elements."""
    return [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else []


def as_tensor(value):
    """Numbers come as tensors of no dimensions."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def plain(t):
    """Dense, on the CPU, in a type that can be compared."""
    t = t.cpu().contiguous().resolve_conj()
    return t.view(torch.uint8) if t.element_size() == 1 and t.is_floating_point() else t


def right_strides(got, want, recorded):
    """Those of eager, or those that export recorded where the two are not of one mind (rows, where it recorded sizes
    that are not known). A real part of a complex result is a tensor of its own in a program.
    """
    if want._is_view() and want._base.is_complex() and not want.is_complex():
        return True
    return strides_that_count(got) == strides_that_count(want) or same_strides(got, recorded or dense_strides(got))


def dense_strides(t):
    return torch.empty(t.shape, device="meta").stride()


def same_strides(t, strides):
    return strides_that_count(t) == [s for n, s in zip(t.shape, strides) if n > 1 and t.numel()]


def wrong_results(got, want, tolerance=None, recorded=None):
    """Every difference between two results, as lines. `tolerance`: a number, or a function of a result's path.
    `recorded`: what export recorded of strides, by leaf; none: strides are not looked at.
    """
    g, w = pytree.tree_flatten_with_path(got)[0], pytree.tree_flatten_with_path(want)[0]
    if [p for p, _ in g] != [p for p, _ in w]:
        return [f"results are {[path_name(p) for p, _ in g]}, expected {[path_name(p) for p, _ in w]}"]
    lines = []
    for n, ((path, a), (_, b)) in enumerate(zip(g, w)):
        if a is b or isinstance(b, str):
            continue
        if a is None or b is None:
            lines.append(f"{path_name(path)}: {a}, expected {b}")
            continue
        a, expected = as_tensor(a), as_tensor(b)
        limit = tolerance(path) if callable(tolerance) else tolerance
        if recorded is not None and isinstance(b, torch.Tensor) and not right_strides(a, b, recorded[n]):
            lines.append(f"{path_name(path)}: strides {a.stride()} of {tuple(a.shape)}, expected {b.stride()}")
        if wrong := difference(plain(a), plain(expected), limit):
            lines.append(f"{path_name(path)}: {wrong}")
    return lines


def recorded_strides(program):
    """Of each user output, in order; None where sizes are free."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    found = []
    for spec in program.graph_signature.output_specs:
        if spec.kind == torch.export.graph_signature.OutputKind.USER_OUTPUT:
            value = values.get(getattr(spec.arg, "name", None))
            strides = value.stride() if isinstance(value, torch.Tensor) else None
            found.append(strides if strides and all(isinstance(s, int) for s in strides) else None)
    return found


def compare_calls(loaded, module, calls, fixed, tolerance=None, recorded=None):
    """Calls both with each (args, kwargs), one after another, so that states go on; what each call wrote is compared
    as well.
    """
    reference = copy.deepcopy(module)
    for number, (args, kwargs) in enumerate(calls):
        theirs, ours = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        with torch.no_grad():
            want = reference(*theirs[0], **theirs[1])
        given = flat_given(*ours, fixed)
        got = loaded(*given[0], **given[1])
        wrong = wrong_results(got, want, tolerance, recorded)
        wrong += [f"argument {line}" for line in wrong_results(given, theirs)]
        assert not wrong, "\n".join([f"call {number}:", *wrong])


def check(
    module,
    args,
    folder,
    kwargs=None,
    dynamic=None,
    others=(),
    decomposed=False,
    tolerance=None,
    settings=(),
    strides=True,
):
    """The program as a package, loaded and compared on its arguments and on each of `others`."""
    module, args, kwargs, others = map(on_device, (module, tuple(args), kwargs or {}, list(others)))
    archive = folder / "m.pt2"
    program, fixed = export(copy.deepcopy(module), args, archive, kwargs, dynamic, decomposed)
    loaded = load(package(archive, *[word for s in settings for word in ("--set", s)]))
    compare_calls(
        loaded,
        module,
        [(a, kwargs) for a in (args, *others)],
        fixed,
        tolerance,
        recorded_strides(program) if strides else None,
    )
    return loaded
