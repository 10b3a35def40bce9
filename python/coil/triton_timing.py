"""Configurations of a user's kernel, timed on the GPU that is here."""

import torch
from torch.fx import Node


def _made(tensor, hint):
    """A tensor like it, of memory of its own: random numbers, and zeros for integers, which may be places."""
    sizes, strides = [hint(n) for n in tensor.shape], [hint(s) for s in tensor.stride()]
    with torch._C._DisableTorchDispatch():
        made = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device="cuda")
        return made.normal_() if made.dtype.is_floating_point and made.dtype.itemsize > 1 else made.zero_()


def fastest(call, configs):
    """The place of the fastest configuration. Raises RuntimeError when none runs."""
    from triton.testing import do_bench

    from .host import _support
    from .triton_code import value_of
    from .triton_kernels import _hint

    def argument(value):
        seen = value_of(value)
        if isinstance(seen, torch.Tensor):
            return _made(seen, _hint)
        return _hint(seen) if isinstance(value, Node) else value

    def described(name, value):
        """As the kernel takes it: a descriptor, where it takes one."""
        if name not in call.descriptors:
            return value
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(value, call.descriptors[name])

    def launched(grid, arguments):
        made = lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda")
        given = _support().UserKernel.in_order(call.function, arguments)
        _support().with_workspace(made, lambda: call.function[grid](*given, **arguments))

    best, problem = None, "no configuration ran"
    with torch.utils._python_dispatch._disable_current_modes():
        given = {k: described(k, argument(v)) for k, v in call.arguments.items()}
        for k, config in enumerate(configs):
            grid = tuple(_hint(value_of(n)) for n in call.given["grid"][k])
            arguments = given | config.all_kwargs()
            try:
                milliseconds = do_bench(lambda: launched(grid, dict(arguments)), return_mode="median")
            except Exception as error:  # of any of the compiler's kinds: the others may do
                problem = f"runs in none of its configurations; in the last tried: {str(error).strip()[-300:]}"
                continue
            if best is None or milliseconds < best[0]:
                best = milliseconds, k
    if best is None:
        raise RuntimeError(problem)
    return best[1]
