"""Kernels that users wrote in Triton, made from their source text: launched by Triton on a GPU, and carried out by its
interpreter on the CPU.
"""

# @piece user_kernels
# ---- Kernels that the user wrote, in Triton ----


class UserKernel:
    """A kernel with its constants. `tensors` and `numbers` name the parameters that calls give, in their order;
    `constants` all others, as Python expressions over the names of `source`; `options` are those of a launch;
    `status` names the parameter by which it tells that it failed, where it can; `descriptors` has the tiles of tensors
    that it takes descriptors of; with `has_workspace` the last of the tensors that calls give is memory for itself.
    """

    def __init__(
        self,
        name,
        where,
        source,
        tensors,
        numbers,
        constants,
        options,
        status="",
        descriptors=None,
        has_workspace=False,
    ):
        self.name, self.where, self.source, self.status = name, where, source, status
        self.descriptors, self.has_workspace = descriptors or {}, has_workspace
        self.tensors, self.numbers, self.constants, self.options = tensors, numbers, constants, options
        self.made = {}  # by whether it is interpreted: the function, and the constants' values
        self.written = ()  # for each tensor, whether the kernel writes to it

    def __call__(self, tensors, numbers, grid, failure=""):
        """Runs it on `grid` blocks, on torch's current stream; what it writes to is among `tensors`. A grid with a 0
        in it runs nothing. `failure`: on a GPU the address of its status, on the CPU what is said where it fails.
        """
        if min(grid) <= 0:
            return
        interpreted = all(t.device.type == "cpu" for t in tensors)
        if interpreted not in self.made:
            self.made[interpreted] = self.make(interpreted)
        kernel, constants = self.made[interpreted]
        arguments = dict(zip(self.tensors, map(self.described, self.tensors, tensors)))
        arguments |= dict(zip(self.numbers, numbers)) | constants
        if not interpreted:
            if self.status:
                arguments[self.status] = StatusOfKernel(failure)
            given = self.in_order(kernel, arguments)
            launch = lambda: kernel[tuple(grid)](*given, **arguments, **self.options)
            if self.has_workspace:
                with_workspace(lambda *_: tensors[-1], launch)
            else:
                launch()
            return
        if self.status:
            status = arguments[self.status] = status_on_host()
        with interpreted_library():
            kernel[tuple(grid)](*self.in_order(kernel, arguments), **arguments)
        if self.status and int(status[0]):
            raise RuntimeError(failure)

    @staticmethod
    def in_order(kernel, arguments):
        """Takes the arguments out whose places are known: the launcher has names of its own, such as `grid`."""
        import itertools

        return [arguments.pop(name) for name in itertools.takewhile(arguments.__contains__, list(kernel.arg_names))]

    def described(self, name, tensor):
        if name not in self.descriptors:
            return tensor
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(tensor, self.descriptors[name])

    def make(self, interpreted):
        import itertools
        import linecache

        try:
            import triton
        except ImportError as error:
            raise RuntimeError(f"the kernel {self.name} ({self.where}) needs Triton, which is not installed") from error
        # Triton reads a kernel's text from its file.
        file = f"<{self.name} of {self.where}, {id(self)}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names = {"__name__": f"user_kernel_{self.name}"}
        exec(compile(self.source, file, "exec"), names)
        if interpreted:
            from triton.runtime.interpreter import InterpretedFunction

            # Kernels that this text defines, also in the modules that it makes for some of them.
            scopes = [names, *(vars(v) for v in names.values() if type(v) is type(itertools) and not v.__spec__)]
            made = {}
            for scope in scopes:
                for name, value in list(scope.items()):
                    if isinstance(value, triton.JITFunction) and value.fn.__globals__ is names:
                        scope[name] = made.setdefault(id(value), InterpretedFunction(value.fn))
        return names[self.name], {name: eval(text, names) for name, text in self.constants.items()}


def with_workspace(allocate, launch):
    """Calls `launch`; kernels that it launches find their workspace where `allocate(bytes, alignment, stream)` says."""
    import contextvars

    import triton

    def run():
        triton.set_allocator(allocate)
        launch()

    contextvars.copy_context().run(run)


class StatusOfKernel:
    """The status of a kernel by its address in memory of a GPU, as Triton takes tensors."""

    def __init__(self, address):
        import torch

        self.address, self.dtype = address, torch.int64

    def data_ptr(self):
        return self.address


def status_on_host():
    """The same of one call: whether it has failed; where to tell so, twice, and of how many calls."""
    import torch

    status = torch.zeros(4, dtype=torch.int64)
    status[1] = status[2] = status.data_ptr()
    status[3] = 1
    return status


def interpreted_libdevice():
    """(module, name, function, function for the interpreter) of CUDA's functions of numbers, by torch's."""
    import numpy as np
    import torch
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import TensorHandle

    names = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
    names = f"{names} erfinv lgamma rsqrt trunc fmod pow atan2 hypot copysign nextafter"
    functions = {name: getattr(torch, name) for name in names.split()}
    functions |= {"rint": torch.round, "signbit": lambda x: torch.signbit(x).int()}
    functions |= {name: getattr(torch.special, f"bessel_{name}") for name in ("j0", "j1", "y0", "y1")}

    def as_array(value, dtype):
        """Of a block, or of a number, which may be one of tl.constexpr."""
        if isinstance(value, tl.core.tensor):
            return value.handle.data
        return np.array([value.value if isinstance(value, tl.constexpr) else value], dtype=dtype)

    def interpreted(function):
        def on_blocks(*blocks):
            most = max((b for b in blocks if isinstance(b, tl.core.tensor)), key=lambda b: b.handle.data.size)
            arrays = np.broadcast_arrays(*(as_array(b, most.handle.data.dtype) for b in blocks))
            made = function(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)).numpy()
            dtype = tl.int32 if made.dtype == np.int32 else most.dtype
            kind = tl.block_type(dtype, list(made.shape)) if most.type.is_block() else dtype
            return tl.core.tensor(TensorHandle(made, dtype), kind)

        return on_blocks

    return [(libdevice, name, getattr(libdevice, name), interpreted(f)) for name, f in functions.items()]


def interpreted_combining():
    """The same for reductions and scans, which combine whole blocks of values at once and not one after another, and
    for rounding.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    def combined(self, first, second, dtypes):
        blocks = [
            tl.core.tensor(interpreter.TensorHandle(np.ascontiguousarray(a), d), tl.block_type(d, list(a.shape)))
            for a, d in zip([*first, *second], [*dtypes, *dtypes])
        ]
        made = self.combine_fn.fn(*blocks)
        return [np.asarray(b.handle.data) for b in (made if isinstance(made, tuple) else (made,))]

    def reduce(self, given):
        blocks, axis = self.unravel(given, self.axis)
        dtypes = [b.dtype for b in blocks]
        arrays = [np.moveaxis(b.handle.data, axis, -1) for b in blocks]
        while arrays[0].shape[-1] > 1:
            pairs = [a[..., 0::2] for a in arrays], [a[..., 1::2] for a in arrays]
            arrays = combined(self, *pairs, dtypes)
        arrays = [np.moveaxis(a, -1, axis) if self.keep_dims else a[..., 0] for a in arrays]
        return [self.to_tensor(a if a.ndim else a.item(), d) for a, d in zip(arrays, dtypes)]

    def scan(self, given):
        """Reversed blocks come and go as such."""
        dtypes = [b.dtype for b in given]
        arrays = [np.moveaxis(b.handle.data, self.axis, -1).copy() for b in given]
        places, step = np.arange(arrays[0].shape[-1]), 1
        while step < len(places):  # blocks keep their size, which must be a power of two
            made = combined(self, [np.roll(a, step, -1) for a in arrays], arrays, dtypes)
            arrays = [np.where(places >= step, m, a) for a, m in zip(arrays, made)]
            step *= 2
        return [self.to_tensor(np.moveaxis(a, -1, self.axis), d) for a, d in zip(arrays, dtypes)]

    truncated = interpreter.InterpreterBuilder.create_fp_trunc

    def fp_trunc(self, given, kind):
        """To bf16 by rounding to nearest, as a GPU does; the interpreter cuts."""
        if (given.dtype.scalar, kind.scalar) != (tl.float32, tl.bfloat16):
            return truncated(self, given, kind)
        bits = np.ascontiguousarray(given.data).view(np.uint32)
        near = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return interpreter.TensorHandle(np.where(np.isnan(given.data), 0x7FC0, near).astype(np.uint16), tl.bfloat16)

    splatted = interpreter.InterpreterBuilder.create_splat

    def splat(self, kind, given):
        """Of a truth value too, which the interpreter takes for one of the numbers that were compared."""
        if given.data.dtype != np.bool_:
            return splatted(self, kind, given)
        return interpreter.TensorHandle(np.full(kind.shape, given.data.reshape(-1)[0]), tl.int1)

    multiplied = interpreter.InterpreterBuilder.create_dot

    def widened(block):
        """Numbers of bf16, which the interpreter has as their bits."""
        if block.dtype.scalar != tl.bfloat16:
            return block
        return interpreter.TensorHandle((block.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def dot(self, a, b, *more):
        return multiplied(self, widened(a), widened(b), *more)

    updated = interpreter.InterpreterBuilder.create_atomic_rmw

    def atomic_rmw(self, operation, *blocks):
        """Of blocks that lie one element behind the other, as the interpreter takes them to."""
        for h in blocks[:3]:  # pointers, values, mask
            h.data = np.ascontiguousarray(h.data)
        return updated(self, operation, *blocks)

    swapped = interpreter.InterpreterBuilder.create_atomic_cas

    def atomic_cas(self, *blocks):
        """The same."""
        for h in blocks[:3]:  # pointers, what is expected there, values
            h.data = np.ascontiguousarray(h.data)
        return swapped(self, *blocks)

    return [
        *interpreted_arguments(),
        (interpreter.InterpreterBuilder, "create_atomic_rmw", updated, atomic_rmw),
        (interpreter.InterpreterBuilder, "create_atomic_cas", swapped, atomic_cas),
        (interpreter.InterpreterBuilder, "create_splat", splatted, splat),
        (interpreter.InterpreterBuilder, "create_dot", multiplied, dot),
        (interpreter.InterpreterBuilder, "create_fp_trunc", truncated, fp_trunc),
        (interpreter.ReduceOps, "generic_reduce", interpreter.ReduceOps.generic_reduce, reduce),
        (interpreter.ScanOps, "generic_scan", interpreter.ScanOps.generic_scan, scan),
    ]


def interpreted_arguments():
    """The same for what kernels are given: a GPU has floats in 32 bits and truth values in one."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter, jit

    converted, normalized = interpreter._implicit_cvt, jit._normalize_ty

    def convert(given):
        if type(given) not in (bool, float):
            return converted(given)
        kind = tl.int1 if type(given) is bool else tl.float32
        data = np.array([given], dtype=np.bool_ if type(given) is bool else np.float32)
        return tl.core.tensor(interpreter.TensorHandle(data, kind), kind)

    def normalize(kind):
        """Of annotations as they are written, with their quotes."""
        return normalized(kind.strip("'\"") if isinstance(kind, str) else kind)

    return [(interpreter, "_implicit_cvt", converted, convert), (jit, "_normalize_ty", normalized, normalize)]


def interpreted_library():
    """While this lasts, Triton's own functions that are written in Triton are interpreted; after it Triton's modules
    are as they were, which its interpreter leaves changed. One thread at a time.
    """
    import contextlib
    import importlib
    import threading

    shared = interpreted_library.__dict__
    if not shared:
        import triton
        from triton.runtime.interpreter import InterpretedFunction

        triton.runtime.jit.mangle_type(1)  # imports more of Triton, which must find its functions as they are
        modules = [importlib.import_module(f"triton.language{m}") for m in ("", ".standard", ".random")]
        made = {}
        shared["swaps"] = [
            (module, name, value, made.setdefault(id(value), InterpretedFunction(value.fn)))
            for module in modules
            for name, value in vars(module).items()
            if isinstance(value, triton.JITFunction)
        ]
        shared["swaps"] += interpreted_libdevice() + interpreted_combining()
        core = triton.language.core
        classes = [
            value for value in vars(core).values() if isinstance(value, type) and value.__module__ == core.__name__
        ]
        shared["touched"] = [core, triton.language, triton.language.math, *classes]
        shared["lock"] = threading.RLock()

    def put_back(owner, before):
        now = dict(vars(owner))
        for name in now.keys() - before.keys():
            delattr(owner, name)
        for name, value in before.items():
            if now.get(name, shared) is not value:
                setattr(owner, name, value)

    @contextlib.contextmanager
    def swapped():
        with shared["lock"]:
            before = [(owner, dict(vars(owner))) for owner in shared["touched"]]
            for module, name, _, new in shared["swaps"]:
                setattr(module, name, new)
            try:
                yield
            finally:
                for module, name, old, _ in shared["swaps"]:
                    setattr(module, name, old)
                for owner, names in before:
                    put_back(owner, names)

    return swapped()
