"""Of programs over a GPU and the CPU: values that come to the host while the host goes on."""

import torch

from .program import DEVICE

# @piece landing
# ---- Copies to the host that are on their way, by the addresses that they go to ----

LANDING = set()


def page_locked(sizes, strides, dtype):
    """Memory of the host that the device copies to while the host goes on."""
    return torch.empty_strided(sizes, strides, dtype=dtype, pin_memory=DEVICE.type == "cuda")


def copy_ahead(to, from_):
    to.copy_(from_, non_blocking=True)
    LANDING.add(to.untyped_storage().data_ptr())


def await_copies(*touched):
    """Waits for all of them where one goes to the memory of such a tensor; without any, wherever one is."""
    if touched and not any(t.untyped_storage().data_ptr() in LANDING for t in touched):
        return
    if LANDING and DEVICE.type == "cuda":
        torch.cuda.current_stream(DEVICE).synchronize()
    LANDING.clear()
