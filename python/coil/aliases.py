"""What AOTAutograd records of results: how those that are views are made again, and how gradients of them lie."""

import contextlib
import unittest.mock

import torch

try:
    from torch._functorch._aot_autograd import collect_metadata_analysis as analysis

    _recorded, _format = analysis.ViewMetaSequence, analysis.MemoryFormatMeta
    _format_of = _format.from_tensor
except (ImportError, AttributeError):  # a torch that records nothing of the kind
    analysis = None


@contextlib.contextmanager
def sound():
    """Within it, AOTAutograd does not record what is wrong in torch 2.13 whatever the backend:

    - The views behind a product of more than two dimensions. What is recorded of `_unsafe_view` refers to sizes that
      are gone: views are made again with numbers that happen to lie there, in this process and in one that finds the
      record in a cache. Without a record the result is made again by its strides.
    - That gradients lie as results do whose elements share memory, as those of `unfold` do: a gradient that is copied
      to such memory loses what it has for all but one of the elements that share a place.
    """
    if analysis is None:
        yield
        return
    with (
        unittest.mock.patch.object(analysis, "ViewMetaSequence", _record),
        unittest.mock.patch.object(_format, "from_tensor", staticmethod(_lay_out)),
    ):
        yield


def _record(tensor):
    made = _recorded(tensor)
    lost = any(type(view).__name__ == "_unsafe_view_ViewMeta" for view in made.sequence)
    return None if lost else made


def _lay_out(tensor, *args, **kwargs):
    made = _format_of(tensor, *args, **kwargs)
    by_strides = made is not None and made.memory_format is None
    return _format(memory_format=torch.contiguous_format) if by_strides and _may_overlap(tensor) else made


def _may_overlap(tensor):
    """Whether two elements may have one place. Sizes and strides are numbers."""
    past = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1):
        if stride < past:
            return True
        past += (size - 1) * stride
    return False
