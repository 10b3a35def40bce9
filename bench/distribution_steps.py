"""Parts of distribution_gpu.py that time whole programs on the ranks: a decoder, a training step, overlap."""

import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

import distribution_models as models
from common import table

GROUP_SETTINGS = {"distribution.one_shot_bytes": "0", "distribution.two_shot_bytes": "0"}


def wait_for_device(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(call, device, calls=10, rounds=5):
    """Of one call: the median over rounds of some calls in a row, of the slowest rank."""
    for _ in range(3):
        call()
    taken = []
    for _ in range(rounds):
        wait_for_device(device)
        dist.barrier()
        wait_for_device(device)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait_for_device(device)
        taken.append((time.perf_counter() - begin) / calls * 1e3)
    slowest = torch.tensor([statistics.median(taken)], device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def agreed(value, device):
    """Rank 0's, on all ranks."""
    told = torch.tensor([int(value)], device=device)
    dist.broadcast(told, 0)
    return bool(told.item())


def graphed(call, x):
    """Eager's calls as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = call(x)

    def replay():
        graph.replay()
        return result

    return replay


class Packages:
    """Programs of Coil's, compiled once for each settings and arguments."""

    def __init__(self, module, x):
        self.module, self.x, self.models = module, x, {}

    def call(self, settings, record):
        import coil

        key = tuple(settings.items())
        if key not in self.models:
            self.models[key] = coil.compile(self.module, (self.x,), options=settings)
        model = self.models[key]

        def call():
            model._graph.record = record
            return model(self.x)

        return call


def compiled(module, x, **options):
    torch._dynamo.reset()
    fn = torch.compile(module, dynamic=False, **options)
    return lambda: fn(x)


def with_symmetric_memory(module, x):
    """Inductor's own choice of one-shot sums."""
    import torch.distributed._symmetric_memory as symmetric

    symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
    with torch._inductor.config.patch({"_collective.auto_select": True}):
        call = compiled(module, x)
        call()
    return call


def decoder_sides(module, x, device):
    """Names, and what makes the call; those of Coil first."""
    graphs, packages = device == "cuda", Packages(module, x)
    yield "Coil package, one shot", lambda: packages.call({}, False)
    if graphs:
        yield "Coil package, one shot, graphs", lambda: packages.call({}, True)
    yield "Coil package, the group's sums", lambda: packages.call(GROUP_SETTINGS, graphs)
    packages.models.clear()
    yield "Coil through torch.compile", lambda: compiled(module, x, backend="coil")
    yield "eager", lambda: lambda: module(x)
    if graphs:
        yield "eager, graphs", lambda: graphed(module, x)
    yield "Inductor", lambda: compiled(module, x)
    if graphs:
        yield "Inductor, graphs", lambda: compiled(module, x, mode="reduce-overhead")
        yield "Inductor, symmetric memory", lambda: with_symmetric_memory(module, x)
        yield "Coil through torch.compile, graphs", lambda: compiled(module, x, backend="coil", mode="reduce-overhead")


def relative_error(got, want):
    return ((got.double() - want.double()).abs().max() / want.double().abs().max()).item()


def said(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:150]}" if lines else type(error).__name__


def decoder_main(rank, ranks, device="cuda", sizes=None, seconds=185):
    """A tensor-parallel stack in bf16: milliseconds of a call for 1, 16 and 1,024 tokens, by side."""
    began, failed = time.perf_counter(), 0
    sizes = sizes or {"width": 4096, "head": 128, "heads": 32, "kv_heads": 8, "hidden": 14336, "layers": 4}
    torch.manual_seed(rank)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    with torch.device(device):
        module = models.decoder(models.SharedLayer, ranks, **sizes).to(dtype).eval().requires_grad_(False)
    tokens, rows = (1, 16, 1024), {}
    for count in tokens:
        x = torch.randn(count, sizes["width"], generator=torch.Generator().manual_seed(count)).to(device, dtype)
        with torch.no_grad():
            want = module(x)
            for name, make in decoder_sides(module, x, device):
                if agreed(time.perf_counter() - began > seconds * (tokens.index(count) + 1) / len(tokens), device):
                    rows.setdefault(name, {})[count] = "not run, for time"
                    continue
                begin = time.perf_counter()
                try:
                    call = make()
                    error = relative_error(call(), want)
                    cold = time.perf_counter() - begin
                    found = f"{milliseconds(call, device):.3f}"
                    if error > 0.03:
                        failed, found = 1, f"WRONG by {error:.2g}"
                except Exception as e:  # the others are of interest all the same
                    failed, cold, error = failed or "Coil" in name, time.perf_counter() - begin, float("nan")
                    found = "failed: " + said(e)
                rows.setdefault(name, {})[count] = found
                if rank == 0:
                    print(
                        f"decoder {count:>5} tokens, {name}: {found} ms, error {error:.2g}, first call {cold:.1f} s",
                        flush=True,
                    )
                call = None
    if rank == 0:
        print(f"\nDecoder of {sizes}, {ranks} ranks, ms of a call (the slowest rank's median)\n")
        print(
            table(
                ["side", *(f"{t} tokens" for t in tokens)], [[n, *(r.get(t) for t in tokens)] for n, r in rows.items()]
            )
        )
    return failed


def fsdp_main(rank, ranks, device="cuda", sizes=None, batch=4, steps=50, seconds=190):
    """FSDP2 over a GPT-2 with random weights (on GPUs in bf16, gradients reduced in f32): losses of the steps against
    eager's, milliseconds of a step, memory.
    """
    began, failed, want, rows = time.perf_counter(), 0, None, []
    sizes = sizes or {"words": 50257, "tokens": 1024, "width": 768, "heads": 12, "layers": 12}
    policy = {}
    if device == "cuda":
        from torch.distributed.fsdp import MixedPrecisionPolicy

        policy["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for name, backend in (("eager", None), ("Coil through torch.compile", "coil"), ("Inductor", "inductor")):
        if agreed(time.perf_counter() - began > seconds * 0.75, device):
            rows.append([name, "not run, for time", None, None, None, None])
            continue
        torch._dynamo.reset()
        torch._dynamo.config.cache_size_limit = 64
        begin, taken = time.perf_counter(), []
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

        def each():
            wait_for_device(device)
            taken.append(time.perf_counter())

        try:
            model = models.fully_sharded(backend, device, sizes, **policy)
            # At ten times this rate no side's losses agreed with another's after fifty steps.
            found = models.losses(model, steps, batch, sizes["tokens"], sizes["words"], device, each, rate=1e-4)
            gap = 0.0 if want is None else (found - want).abs().max().item()
            want = found if want is None else want
            spans = [b - a for a, b in zip(taken[steps // 2 :], taken[steps // 2 + 1 :])]
            memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
            rows.append([name, statistics.median(spans) * 1e3, taken[0] - begin, memory, found[-1].item(), gap])
            if gap > 0.05 and backend == "coil":
                failed = 1
        except Exception as e:  # the others are of interest all the same
            failed = failed or backend == "coil"
            rows.append([name, "failed: " + said(e), None, None, None, None])
        if rank == 0:
            print(f"fsdp {rows[-1]}", [] if model is None else [round(x, 3) for x in found[:6].tolist()], flush=True)
        model = None
    if rank == 0:
        print(f"\nFSDP2, GPT of {sizes}, {batch} rows a rank, {ranks} ranks, {steps} steps; every step is waited for\n")
        heads = ["side", "ms of a step", "first step, s", "peak GiB", "last loss", "largest gap to eager's losses"]
        print(table(heads, rows))
    return failed


class Beside(torch.nn.Module):
    """A chain of products that needs nothing of an exchange, written behind it."""

    def __init__(self, products):
        super().__init__()
        self.products = products

    def forward(self, x, y):
        for _ in range(self.products):
            y = torch.tanh(y @ y)
        return funcol.all_reduce(x * 2, "max", dist.group.WORLD), y


class Many(torch.nn.Module):
    """Small exchanges, each written where its values are needed."""

    def __init__(self, ranks, count):
        super().__init__()
        self.ranks, self.count = ranks, count

    def forward(self, x, y):
        for k in range(self.count):
            y = y + funcol.all_gather_tensor(x * (k + 1), 0, dist.group.WORLD)
        return y


def overlap_main(rank, ranks, device="cuda", exchanged=256 << 20, width=4096, products=4, count=64):
    """Programs with and without overlap and buckets: milliseconds of a call beside those of its parts."""
    import coil

    dtype, failed, rows = torch.bfloat16 if device == "cuda" else torch.float32, 0, []
    x, y = (
        torch.randn(exchanged // dtype.itemsize, dtype=dtype, device=device),
        torch.randn(width, width, dtype=dtype, device=device) / 64,
    )
    small, sums = (
        torch.randn(2048, 2, dtype=dtype, device=device),
        torch.zeros(2048 * ranks, 2, dtype=dtype, device=device),
    )
    off = {**GROUP_SETTINGS, "distribution.overlap": "false"}
    none = {**GROUP_SETTINGS, "distribution.bucket_bytes": "0"}
    programs = [
        ("products alone", Beside(products), (x[:8], y), off),
        ("exchange alone", Beside(0), (x, y), off),
        ("both, as written", Beside(products), (x, y), off),
        ("both, overlapped", Beside(products), (x, y), GROUP_SETTINGS),
        (f"{count} gathers, as written", Many(ranks, count), (small, sums), off),
        (f"{count} gathers, moved, no buckets", Many(ranks, count), (small, sums), none),
        (f"{count} gathers, buckets", Many(ranks, count), (small, sums), GROUP_SETTINGS),
    ]
    for name, module, args, settings in programs:
        for record in (False, True) if device == "cuda" else (False,):
            model = coil.compile(module, args, options=settings)
            model._graph.record = record
            wrong = max(relative_error(g, w) for g, w in zip(_list(model(*args)), _list(module(*args))))
            failed |= wrong > 0.03
            rows.append([name + (", graphs" if record else ""), milliseconds(lambda: model(*args), device), wrong])
            if rank == 0:
                print(f"overlap {rows[-1]}", flush=True)
    if rank == 0:
        print(f"\nOverlap, {ranks} ranks, {exchanged >> 20} MiB exchanged, {products} products of {width}\n")
        print(table(["program", "ms of a call", "error"], rows))
    return failed


class SummedMlp(torch.nn.Module):
    """A rank's share of an MLP over all tokens, whose results are added up."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, hidden, bias=False), torch.nn.Linear(hidden, width, bias=False)

    def part(self, x):
        return self.down(torch.relu(self.up(x)))

    def forward(self, x):
        return funcol.all_reduce(self.part(x), "sum", dist.group.WORLD)


class ScatteredMlp(SummedMlp):
    """The same, with as many tokens on each rank: they are gathered before it and scattered behind it."""

    def forward(self, x):
        every = funcol.all_gather_tensor(x, 0, dist.group.WORLD)
        return funcol.reduce_scatter_tensor(self.part(every), "sum", 0, dist.group.WORLD)


def prefill_sides(module, x, device):
    settings = {"whole": {}, "whole, the group's sums": GROUP_SETTINGS, "chunks by the model": {"chunks": "auto"}}
    settings |= {f"{n} chunks": {"chunks": str(n)} for n in (2, 4, 8)}
    for name, given in settings.items():
        if "chunks" in given:
            given = {"distribution.chunks": given["chunks"]}
        packages = Packages(module, x)
        for record in (False, True) if device == "cuda" else (False,):
            yield f"Coil, {name}{', graphs' * record}", lambda: packages.call(given, record)
    yield "eager", lambda: lambda: module(x)
    if device == "cuda":
        yield "eager, graphs", lambda: graphed(module, x)
    yield "Inductor", lambda: compiled(module, x)


def prefill_main(rank, ranks, device="cuda", width=4096, hidden=14336, tokens=(1024, 4096), seconds=130):
    """An MLP of a prompt's tokens with its exchange in one piece and in chunks beside the products: milliseconds of a
    call, and the largest distance to eager's values and to those of the whole.
    """
    began, failed, dtype = time.perf_counter(), 0, torch.bfloat16 if device == "cuda" else torch.float32
    for kind, shares in ((SummedMlp, 1), (ScatteredMlp, ranks)):
        torch.manual_seed(rank)
        with torch.device(device):
            module = kind(width, hidden // ranks).to(dtype).eval().requires_grad_(False)
        for count in tokens:
            random, rows, whole = torch.Generator().manual_seed(count + rank * (shares > 1)), [], None
            x = torch.randn(count // shares, width, generator=random).to(device, dtype)
            with torch.no_grad():
                want = module(x)
                for name, make in prefill_sides(module, x, device):
                    if agreed(time.perf_counter() - began > seconds, device):
                        rows.append([name, "not run, for time", None, None])
                        continue
                    try:
                        call = make()
                        got = call()
                        whole = got if whole is None else whole
                        errors = relative_error(got, want), relative_error(got, whole)
                        failed |= errors[0] > 0.03
                        rows.append([name, milliseconds(call, device), *errors])
                    except Exception as e:  # the others are of interest all the same
                        failed = failed or "Coil" in name
                        rows.append([name, "failed: " + said(e), None, None])
                    if rank == 0:
                        print(f"prefill {kind.__name__} {count} tokens {rows[-1]}", flush=True)
            if rank == 0:
                print(f"\n{kind.__name__} of {width} and {hidden}, {count} tokens, {ranks} ranks\n")
                print(table(["side", "ms of a call", "distance to eager's", "to the whole's"], rows))
    return failed


def _list(results):
    return results if isinstance(results, (list, tuple)) else [results]
