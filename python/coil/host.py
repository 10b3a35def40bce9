"""What Coil leaves to torch: operators without lowering, and the seeds of random numbers."""
import functools

from . import _native


def find(name):
    """torch's operator of a name such as `aten.cumsum.default`, or None. The prefix `host.` is of those that Coil must not take itself."""
    import torch

    try:
        return functools.reduce(getattr, name.removeprefix("host.").split("."), torch.ops)
    except AttributeError:
        return None


def draw_seed():
    """The seed of one call's random operators. From the generator of the CPU whatever the device, which nothing need wait for; torch.manual_seed sets all of them."""
    import torch

    return torch.randint(-(2**63), 2**63 - 1, (), device="cpu").item()


_native.set_host(find)
_native.set_seed_source(draw_seed)
