"""Kernels that users wrote in Triton, made from their source text: launched by Triton on a GPU, and carried out by its
interpreter on the CPU.
"""

# @piece user_kernels
# ---- Kernels that the user wrote, in Triton ----


class UserKernel:
    """A kernel with its constants. `tensors` and `numbers` name the parameters that calls give, in their order;
    `constants` all others, as Python expressions over the names of `source`; `options` are those of a launch.
    """

    def __init__(self, name, where, source, tensors, numbers, constants, options):
        self.name, self.where, self.source = name, where, source
        self.tensors, self.numbers, self.constants, self.options = tensors, numbers, constants, options
        self.made = {}  # by whether it is interpreted: the function, and the constants' values
        self.written = ()  # for each tensor, whether the kernel writes to it

    def __call__(self, tensors, numbers, grid):
        """Runs it on `grid` blocks, on torch's current stream; what it writes to is among `tensors`. A grid with a 0
        in it runs nothing.
        """
        if min(grid) <= 0:
            return
        interpreted = all(t.device.type == "cpu" for t in tensors)
        if interpreted not in self.made:
            self.made[interpreted] = self.make(interpreted)
        kernel, constants = self.made[interpreted]
        arguments = dict(zip(self.tensors, tensors)) | dict(zip(self.numbers, numbers)) | constants
        if not interpreted:
            kernel[tuple(grid)](**arguments, **self.options)
            return
        with interpreted_library():
            kernel[tuple(grid)](**arguments)

    def make(self, interpreted):
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

            for name, value in list(names.items()):
                if isinstance(value, triton.JITFunction) and value.fn.__globals__ is names:
                    names[name] = InterpretedFunction(value.fn)
        return names[self.name], {name: eval(text, names) for name, text in self.constants.items()}


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
