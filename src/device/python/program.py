"""What the emitters write into each program themselves, named here for readers and linters of the other files."""

DEVICE = None  # a torch.device
DTYPE_NAMES, DTYPE_NUMBERS = {}, {}  # dtypes to coil's names, and to the numbers that the C interface has for them
KERNELS = None  # what holds the compiled kernels
HOST_KERNELS = None  # the same of the CPU
SCHEMAS = {}  # of the operators in torch.ops.coil_wrapper, by name
SYMBOLS = ""  # of the graph, as text
TORCH_OPS = {}  # library operations in torch, by name


def load():
    """The graph module."""
