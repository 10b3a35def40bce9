"""What Coil leaves to torch: operators without lowering, and the seeds of random numbers."""

import functools
import itertools
import json
import types

from . import _native

# What attention kernels tell their gradients of the random numbers that they drew.
_DRAWN = ("philox_seed", "philox_offset")


def _remembering(op, devices):
    """A kernel of attention that notes where it leaves what it drew: on the CPU or the GPU, by kernel and by torch's
    version. Graphs hold it on their own device.
    """
    place = next(i for i, result in enumerate(op._schema.returns) if result.name in _DRAWN)

    def call(*args, **kwargs):
        results = op(*args, **kwargs)
        devices[op._schema.name] = results[place].device
        return results

    return call


def _reminded(op, devices):
    """The gradient of such a kernel, which reads what was drawn from there and nowhere else."""
    places = [i for i, argument in enumerate(op._schema.arguments) if argument.name in _DRAWN]

    def call(*args, **kwargs):
        device = devices.get(op._schema.name.removesuffix("_backward"))
        if device is not None:
            args = [a.to(device) if i in places else a for i, a in enumerate(args)]
        return op(*args, **kwargs)

    return call


_devices = {}  # of the process's kernels


def _save(name, *args, **kwargs):
    """The state of torch's generator, and what the operator then draws."""
    from torch._prims.rng_prims import run_and_save_rng_state

    state, results = run_and_save_rng_state(find(name), *args, **kwargs)
    return (state, *results) if isinstance(results, (list, tuple)) else (state, results)


def _repeat(state, name, *args, **kwargs):
    """What the operator drew in that state."""
    from torch._prims.rng_prims import run_with_rng_state

    return run_with_rng_state(state.cpu(), find(name), *args, **kwargs)


_kept, _tickets = {}, itertools.count(1)


def _sized(op):
    """An operator whose results have sizes that only it tells: it runs, they are kept, and the sizes asked for follow
    the number that they are kept under.
    """
    import torch

    def call(which, *args, **kwargs):
        results = op(*args, **kwargs)
        tensors, ticket = results if isinstance(results, (list, tuple)) else [results], next(_tickets)
        _kept[ticket] = results
        while len(_kept) > 64:  # of runs that failed before they took theirs
            _kept.pop(next(iter(_kept)), None)
        return torch.tensor(
            [ticket, *(tensors[k].size(d) for k, d in zip(which[::2], which[1::2]))], device=tensors[0].device
        )

    call._schema = getattr(op, "_schema", None)
    return call


def _in_place_of(op, call):
    """`call`, which does what the operator does, with what the extension asks of one."""
    call._schema = op._schema
    if hasattr(op, "may_keep_arguments"):
        call.may_keep_arguments = True
    return call


def _flat(op):
    """An operator that gives lists among several results: what they hold counts as results of its own."""

    def call(*args, **kwargs):
        return [item for r in op(*args, **kwargs) for item in (r if isinstance(r, (list, tuple)) else [r])]

    return _in_place_of(op, call)


def _take(ticket):
    return _kept.pop(int(ticket[0]))


def _with_numbers(op, numbers):
    """An operator on complex numbers, which graphs hold as tensors of no dimensions; `numbers`: the arguments that
    torch takes no tensor for.
    """
    import torch

    def plain(key, value):
        return value.item() if key in numbers and isinstance(value, torch.Tensor) else value

    def call(*args, **kwargs):
        return op(*(plain(i, a) for i, a in enumerate(args)), **{k: plain(k, v) for k, v in kwargs.items()})

    return _in_place_of(op, call)


# Namespaces, torch's own and Coil's, whose operators keep nothing of what they are given, and whose results are ready
# when they return.
_KEEP_NOTHING = ("aten", "prims", "prim", "coil")


def _from_outside(op):
    """An operator that neither torch nor Coil has. The extension asks whether it may keep its arguments."""
    from .collectives import completed, is_collective

    call = completed(op)
    name = f"{op._schema.name.replace('::', '.')}.{op._schema.overload_name or 'default'}"
    # Collectives are done with their arguments when they are complete. Those that other ranks reach are there at one
    # place alone, and no copy of them would do.
    if not is_collective(op) and not _native.symm_mem_args(name):
        call.may_keep_arguments = True
    return call


@functools.cache
def _support():
    """What programs written as Python run users' kernels by (src/device/python/user_kernels.py), as a module."""
    module = types.ModuleType("coil.user_kernels")
    exec(compile(_native.support_text("python/user_kernels.py"), "coil/user_kernels.py", "exec"), module.__dict__)
    return module


@functools.lru_cache(256)
def user_kernel(program):
    """The kernel of such a definition, for Python to call."""
    parts = json.loads(program)
    return _support().UserKernel(
        *(parts[k] for k in ("name", "where", "source", "tensors", "numbers", "constants", "options")),
        status=parts.get("status", ""),
        descriptors=parts.get("descriptors"),
    )


def _run_user_kernel(program, tensors, numbers, grid, failure=""):
    """On the CPU, where Triton's interpreter carries it out; it writes to its tensors in place."""
    user_kernel(program)(tensors, numbers, grid, failure)


def _lu_permutation(pivots, rows):
    """Which row of the matrix each row of L U is."""
    import torch

    factors = torch.empty(*pivots.shape[:-1], rows, pivots.shape[-1], device=pivots.device)
    order, _, _ = torch.lu_unpack(factors, pivots, unpack_data=False)
    return order.argmax(-2)


_COILS = {
    "coil.user_kernel.default": _run_user_kernel,
    "coil.lu_permutation.default": _lu_permutation,
}
_RANDOM = {"host.random.save": _save, "host.random.repeat": _repeat}


def find(name):
    """torch's operator of a name such as `aten.cumsum.default`, or None. The prefix `host.` is of those that Coil must
    not take itself.
    """
    import torch

    if name in _RANDOM:
        return _RANDOM[name]
    if name in _COILS:
        return _COILS[name]
    if name.startswith("sized."):
        op = find(name.removeprefix("sized."))
        return op and _sized(op)
    if name.startswith("flat."):
        op = find(name.removeprefix("flat."))
        return op and _flat(op)
    if name.startswith("kept."):
        return _take if find(name.removeprefix("kept.")) else None
    try:
        op = functools.reduce(getattr, name.removeprefix("host.").split("."), torch.ops)
    except AttributeError:
        return None
    schema = getattr(op, "_schema", None)
    if schema is not None and any(r.name in _DRAWN for r in schema.returns):
        return _remembering(op, _devices)
    if schema is not None and schema.name.endswith("_backward") and any(a.name in _DRAWN for a in schema.arguments):
        return _reminded(op, _devices)
    if schema is not None and op.namespace not in _KEEP_NOTHING:
        op = _from_outside(op)
    if schema is not None and name.startswith("host."):
        numbers = {
            key for i, a in enumerate(schema.arguments) for key in (i, a.name) if isinstance(a.type, torch.NumberType)
        }
        return _with_numbers(op, numbers) if numbers else op
    return op


def draw_seed():
    """The seed of one call's random operators. From the generator of the CPU whatever the device, which nothing need
    wait for; torch.manual_seed sets all of them.
    """
    import torch

    return torch.randint(-(2**63), 2**63 - 1, (), device="cpu").item()


_native.set_host(find)
_native.set_seed_source(draw_seed)
