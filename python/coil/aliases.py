"""How AOTAutograd makes results again that are views of others."""

import contextlib
import unittest.mock

try:
    from torch._functorch._aot_autograd import collect_metadata_analysis as analysis

    _recorded = analysis.ViewMetaSequence
except (ImportError, AttributeError):  # a torch that records nothing of the kind
    analysis = None


@contextlib.contextmanager
def sound():
    """Within it, AOTAutograd does not record the views behind a product of more than two dimensions. What torch 2.13
    records of `_unsafe_view` refers to sizes that are gone: views are made again with numbers that happen to lie there,
    in this process and in one that finds the record in a cache, whatever the backend. Without a record the result is
    made again by its strides.
    """
    if analysis is None:
        yield
        return
    with unittest.mock.patch.object(analysis, "ViewMetaSequence", _record):
        yield


def _record(tensor):
    made = _recorded(tensor)
    lost = any(type(view).__name__ == "_unsafe_view_ViewMeta" for view in made.sequence)
    return None if lost else made
