"""How a program runs its parts, each of which a graph of a device can hold."""

# @piece parts
# ---- Parts of the program, each of which can be recorded ----


def run_part(number, part, given):
    """Runs a part. It asks nothing of the host and depends on nothing but `given` (tensors and sizes), weights and
    kernels, so who records graphs puts a function of this form in the place of this one. A part takes what it needs out
    of the list and leaves it empty; what it gives is a list."""
    return part(given)
