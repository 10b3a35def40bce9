"""Programs with Triton kernels of users (test/python/triton_user_programs.py) on a GPU: values beside eager, where
Triton itself launches the kernels, and beside plain torch; with graphs of CUDA as well, and in packages.

    python bench/gpu_triton_programs.py [TEXT]      those whose names have the text in them
"""

import pathlib
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build/python"), str(ROOT / "test/python")]

import coil  # noqa: E402
import triton_models as models  # noqa: E402
import triton_user_programs as programs  # noqa: E402

TOLERANCE = 1e-4


def tensors(value):
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in tensors(v)]


def own(args):
    return [a.cuda() if 0 in a.stride() else a.cuda().clone() for a in args]


def check(name, got, *wanted):
    """Says where results differ. Returns whether they do."""
    for whose, want in zip(("eager", "torch"), wanted):
        for g, w in zip(tensors(got), tensors(want), strict=True):
            if not torch.allclose(g.double(), w.double(), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                print(f"WRONG {name}: {(g.double() - w.double()).abs().max():.3g} from {whose}")
                return True
    return False


def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="coil", fullgraph=True, options={"cache": "none"} | options)


def values(name, function, args, plain):
    """In torch.compile, with graphs of CUDA and without. Returns whether it is wrong."""
    wrong = False
    for graphs in ("false", "true"):
        run = compiled(function, **{"cuda.graphs": graphs})
        for turn in range(3):  # a graph of CUDA is recorded at the second call
            given = own(args)
            wrong |= check(
                f"{name}, cuda.graphs={graphs}, call {turn}", run(*given), function(*own(args)), plain(*own(args))
            )
    return wrong


def package(name, function, args):
    class Module(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    exported = torch.export.export(Module(), tuple(own(args)), strict=True)
    graphs = [m.graph for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    if not any("triton_kernel" in str(node.target) for graph in graphs for node in graph.nodes):
        print(f"{name}, package: torch's export leaves the kernel out")
        return False
    with tempfile.TemporaryDirectory() as folder:
        coil.compile(exported, device="cuda", options={"cache": "none"}).save(f"{folder}/m.coil")
        return check(f"{name}, package", coil.load(f"{folder}/m.coil")(*own(args)), function(*own(args)))


def gradients(name, function, x, plain):
    def step(function):
        given = x.cuda().requires_grad_()
        result = function(given)
        result.sum().backward()
        return result.detach(), given.grad

    return check(name, step(compiled(function)), step(function), step(plain))


def trained(name):
    """Ten steps of a small Llama whose norms and rotary embeddings are kernels."""
    torch.backends.cuda.matmul.allow_tf32 = False
    options = dict(vocabulary=1000, width=256, heads=4, layers=4, length=128)
    tokens = torch.randint(1000, (8, 129))
    model, eager, plain = (models.Llama(kernels, **options).cuda() for kernels in (True, True, False))
    losses = [models.train(m, run, tokens) for m, run in ((model, compiled(model)), (eager, eager), (plain, plain))]
    print(
        f"{name}: losses {', '.join(f'{x:.4f}' for x in losses[0])}; plain {', '.join(f'{x:.4f}' for x in losses[2])}"
    )
    return check(name, *losses)


def mixture(name):
    given = models.mixture_inputs(512, 256, 512, 8, device="cuda")
    with torch.no_grad():
        got, eager, plain = (f(*given) for f in (compiled(models.mixture), models.mixture, models.plain_mixture))
    distance = (got - plain).abs().max() / plain.abs().max()
    print(f"{name}: {distance:.2g} from plain torch (the kernel's products are TF32's)")
    return check(name, got, eager) or bool(distance > 5e-3)


def tried(name, run):
    try:
        return run()
    except Exception as error:  # of any kind: the others are run all the same
        print(f"FAILED {name}: {type(error).__name__}: {str(error).strip()[:400]}")
        return True


def main():
    torch.set_default_device("cuda")
    print(torch.cuda.get_device_name(), torch.__version__)
    runs = {}
    for name, (function, args, plain) in programs.PROGRAMS.items():
        runs[name] = lambda name, program=(function, args, plain): values(name, *program)
        runs[f"{name}, package"] = lambda _, name=name, program=(function, args): package(name, *program)
    for name, program in programs.TRAINED.items():
        runs[name] = lambda name, program=program: gradients(name, *program)
    runs |= {"a model in training": trained, "a mixture of experts": mixture}
    wanted = [name for name in runs if "".join(sys.argv[1:]) in name]
    bad = [name for name in wanted if tried(name, lambda: runs[name](name))]
    print(f"{len(wanted) - len(bad)} of {len(wanted)} right" + (f"; not: {', '.join(bad)}" if bad else ""))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
