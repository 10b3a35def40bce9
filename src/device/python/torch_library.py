"""Library operations by torch, of programs for a GPU."""

from .program import TORCH_OPS


# @piece torch_library
class LibraryCall:
    """A call site of a library operation, which torch carries out: views in, views out."""

    def __init__(self, op, **attributes):
        self.run, self.attributes = TORCH_OPS[op], attributes

    def __call__(self, inputs, outputs):
        self.run(inputs, outputs, **self.attributes)
