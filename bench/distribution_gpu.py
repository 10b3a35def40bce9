"""Collectives of Coil's programs on GPUs of one machine: values, latencies, and what happens when a rank dies.

    python bench/distribution_gpu.py [--ranks N] [values|package|latency|faults|decoder|fsdp|overlap|prefill ...]

A process for each rank and GPU. `values`: every collective, for six types and sizes from none to 64 MiB, sums by NCCL
and in one and two shots over symmetric memory, against torch.distributed's over NCCL. `package`: an exported program
of each rank, run by `coil run --ranks` with no Python, against eager. `latency`: microseconds of one sum over the
ranks inside of a program of twenty, plain and as a CUDA graph, beside torch's over NCCL and torch's own kernels over
symmetric memory in CUDA graphs; `chosen` is what a program does that is compiled with no settings. `faults`: a rank is
killed; the others are to end with an error. `decoder`: a tensor-parallel Llama-like stack, one call of 1, 16 and 1,024
tokens, by eager, Inductor and Coil, with and without CUDA graphs. `fsdp`: training steps of a GPT-2 under FSDP2,
losses against eager's. `overlap`: an exchange beside products that do not need it, and many small ones, with and
without the pass that moves them. `prefill`: an MLP of 1,024 and of 4,096 tokens, its exchange in one piece and in
chunks beside the products. (`--device cpu` runs these four over Gloo, in small sizes.) Each part prints as it goes and
is ended when it takes too long. With torch before 2.12 `package` gathers a contiguous copy where later ones gather a
transposed tensor, which eager refused.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build/python"), str(ROOT / "test/python")]
import distribution_steps  # noqa: E402

MANY = 1 << 40
FORMS = {
    "one": {"distribution.one_shot_bytes": MANY},
    "two": {"distribution.one_shot_bytes": 0, "distribution.two_shot_bytes": MANY},
    "nccl": {"distribution.one_shot_bytes": 0, "distribution.two_shot_bytes": 0},
}
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8]
SIZES = [0, 1, 3, 1000, 16 << 10, 100_003, 1 << 20]  # elements of a rank's share; beside them 64 MiB of all
LATENCY_BYTES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
SECONDS = {
    "values": 80,
    "package": 40,
    "latency": 70,
    "faults": 50,
    "decoder": 238,
    "fsdp": 238,
    "overlap": 100,
    "prefill": 160,
}
CHAIN = 20
functional = torch.ops._c10d_functional
wait = functional.wait_tensor


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


class Everything(torch.nn.Module):
    """All collectives of one tensor of `ranks` n elements."""

    def __init__(self, ranks, floats):
        super().__init__()
        self.ranks, self.floats = ranks, floats

    def forward(self, x):
        sums = [wait(functional.all_reduce(x + 1, "sum", "default"))]
        kinds = ["max", "min", "product"] + (["avg"] if self.floats else [])
        others = [functional.all_reduce(x, kind, "default") for kind in kinds]
        pair = functional.all_reduce_coalesced([x, x + 2], "max", "default")
        gathered = functional.all_gather_into_tensor(x, self.ranks, "default")
        scattered = functional.reduce_scatter_tensor(x, "sum", self.ranks, "default")
        first = functional.broadcast(x + 3, self.ranks - 1, "default")
        share = x.shape[0] // self.ranks
        moved = functional.all_to_all_single(x, [share] * self.ranks, [share] * self.ranks, "default")
        return sums + [wait(t) for t in [*others, *pair, gathered, scattered, first, moved]]


def expected(x, ranks, floats):
    """The same by torch.distributed."""

    def reduced(t, op):
        t = t.clone()
        dist.all_reduce(t, op)
        return t

    kinds = [dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT] + ([dist.ReduceOp.AVG] if floats else [])
    results = [reduced(x + 1, dist.ReduceOp.SUM), *(reduced(x, op) for op in kinds)]
    results += [reduced(t, dist.ReduceOp.MAX) for t in (x, x + 2)]
    gathered, scattered = x.new_empty(x.shape[0] * ranks), x.new_empty(x.shape[0] // ranks)
    dist.all_gather_into_tensor(gathered, x)
    dist.reduce_scatter_tensor(scattered, x)
    first, moved = x + 3, torch.empty_like(x)
    dist.broadcast(first, ranks - 1)
    dist.all_to_all_single(moved, x)
    return [*results, gathered, scattered, first, moved]


def values_of(dtype, elements, rank):
    random = torch.Generator("cuda").manual_seed(rank)
    if dtype.is_floating_point:
        return torch.rand(elements, generator=random, device="cuda").to(dtype)
    return torch.randint(0, 9, (elements,), generator=random, device="cuda").to(dtype)


def difference(got, want):
    """None where two tensors agree to rounding."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if got.numel() == 0:
        return None
    if not got.dtype.is_floating_point:
        return None if torch.equal(got, want) else f"{(got != want).sum().item()} integers differ"
    error = (got.double() - want.double()).abs().max().item()
    bound = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[got.dtype] * max(
        1.0, want.double().abs().max().item()
    )
    return None if error <= bound else f"off by {error:.3g}"


def both(model, folder, rank):
    """The program, and from its package one whose calls are recorded as CUDA graphs."""
    import coil

    path = pathlib.Path(folder) / f"{rank}.coil"
    model.save(path)
    recorded = coil.load(path)
    recorded._graph.record = True
    return model, recorded


def check(models, dtype, elements, rank, ranks):
    x = values_of(dtype, elements * ranks, rank)
    want = expected(x, ranks, dtype.is_floating_point)
    wrong = []
    for model, times in zip(models, (1, 3)):
        for turn in range(times):
            got = model(x)
            torch.cuda.synchronize()
            for k, (a, b) in enumerate(zip(got, want)):
                if d := difference(a, b):
                    wrong.append(f"result {k}{' recorded, call ' + str(turn) if times > 1 else ''}: {d}")
    return wrong


def values_main(rank, ranks, folder):
    import coil

    total = 0
    for dtype in TYPES:
        item = torch.empty((), dtype=dtype).element_size()
        most = (64 << 20) // item // ranks
        module = Everything(ranks, dtype.is_floating_point).cuda()
        n = torch.export.Dim("n", min=2, max=most)
        for form, settings in FORMS.items():
            options = {key: str(value) for key, value in settings.items()}
            begin = time.perf_counter()
            example = values_of(dtype, 8 * ranks, rank)
            model = coil.compile(module, (example,), dynamic_shapes={"x": {0: n * ranks}}, options=options)
            models, failed = both(model, folder, rank), []
            for elements in sorted({*SIZES, most}):
                if elements < 2 and form == "one":  # sizes that an exported program has for good
                    fixed = coil.compile(module, (values_of(dtype, elements * ranks, rank),), options=options)
                    fixed = both(fixed, folder, rank)
                    failed += [f"{elements} elements, {d}" for d in check(fixed, dtype, elements, rank, ranks)]
                elif 2 <= elements <= most:
                    failed += [f"{elements} elements, {d}" for d in check(models, dtype, elements, rank, ranks)]
            total += bool(failed)
            print(
                f"values {name_of(dtype):9} sums by {form:5} rank {rank} "
                f"{'right' if not failed else 'WRONG: ' + '; '.join(failed[:6])} ({time.perf_counter() - begin:.1f} s)",
                flush=True,
            )
    return total


class Chain(torch.nn.Module):
    def forward(self, x):
        for _ in range(CHAIN):
            x = wait(functional.all_reduce(x * 0.5, "sum", "default"))
        return x


def timed(call, bytes_):
    """Microseconds of one of the chain's sums."""
    calls = 5 if bytes_ > 8 << 20 else 30
    for _ in range(3):
        call()
    taken = []
    for _ in range(3):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begin) / calls / CHAIN * 1e6)
    slowest = torch.tensor([statistics.median(taken)], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def graphed(body):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        body()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            body()
    return graph.replay


def torch_sides(bytes_):
    """Calls of torch's that carry out the chain, by name."""
    import torch.distributed._symmetric_memory as symmetric

    elements = bytes_ // 2
    x = torch.ones(elements, dtype=torch.bfloat16, device="cuda")

    def alone():
        for _ in range(CHAIN):
            torch.mul(x, 0.5, out=x)

    def nccl():
        for _ in range(CHAIN):
            torch.mul(x, 0.5, out=x)
            dist.all_reduce(x)

    yield "multiplication alone", graphed(alone)
    yield "torch nccl", graphed(nccl)
    shared = symmetric.empty(elements, dtype=torch.bfloat16, device="cuda").fill_(1)
    group = dist.group.WORLD.group_name
    symmetric.rendezvous(shared, group)

    def one_shot():
        y = x
        for _ in range(CHAIN):
            torch.mul(y, 0.5, out=shared)
            y = torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", group)

    def two_shot():
        for _ in range(CHAIN):
            torch.mul(shared, 0.5, out=shared)
            torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", group)

    yield "torch one shot", graphed(one_shot)
    yield "torch two shots", graphed(two_shot)


def latency_main(rank, ranks, folder):
    import coil

    failed = 0
    for bytes_ in LATENCY_BYTES:
        row = {}
        try:
            for name, call in torch_sides(bytes_):
                row[name] = timed(call, bytes_)
        except Exception as e:  # the others are of interest all the same
            if rank == 0:
                print(f"latency {bytes_} bytes: torch failed: {e}".splitlines()[0], flush=True)
        x = torch.ones(bytes_ // 2, dtype=torch.bfloat16, device="cuda")
        for form, settings in {**FORMS, "chosen": {}}.items():
            options = {key: str(value) for key, value in settings.items()}
            try:
                model, recorded = both(coil.compile(Chain(), (x,), options=options), folder, rank)
                row[f"coil {form}"] = timed(lambda: model(x), bytes_)
                row[f"coil {form} graph"] = timed(lambda: recorded(x), bytes_)
            except coil.Error as e:
                failed = 1
                print(f"latency {bytes_} bytes, {form}, rank {rank}: FAILED {e}", flush=True)
                break
        alone = row.get("multiplication alone", 0.0)
        if rank == 0:
            print(
                f"latency {bytes_:>9} bytes, us of a sum without its multiplication ({alone:.1f}): "
                + ", ".join(f"{k} {v - alone:.1f}" for k, v in row.items() if k != "multiplication alone"),
                flush=True,
            )
    return failed


def fault_main(rank, ranks, form, graphs):
    """Calls until something ends it."""
    import coil

    x = torch.ones(4096, dtype=torch.float32, device="cuda")
    options = {key: str(value) for key, value in FORMS[form].items()}
    model = coil.compile(Chain(), (x,), options=options)
    model._graph.record = graphs
    print("ready", flush=True)
    try:
        while True:
            model(x)
            torch.cuda.synchronize()
    except coil.Error as e:
        print(f"coil.Error: {e}", file=sys.stderr, flush=True)
        os._exit(1)


def environment(folder, rank, ranks, **more):
    libraries = {
        line.split()[-1].rsplit("/", 1)[0]
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines()
        if "libnccl.so" in line
    }
    path = [*libraries, str(ROOT / "build/lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return (
        os.environ
        | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "COIL_GROUP_STORE": f"file:{folder}/store",
            "COIL_GROUP_TIMEOUT": "20",
            "LD_LIBRARY_PATH": ":".join(path),
        }
        | more
    )


def start(part, folder, rank, ranks, *arguments, **more):
    return subprocess.Popen(
        [sys.executable, __file__, "--of", folder, *arguments, part],
        env=environment(folder, rank, ranks, **more),
        stderr=subprocess.PIPE,
        text=True,
        **({"stdout": subprocess.PIPE} if part == "faults" else {}),
    )


def ranks_of(part, ranks, seconds, device):
    """Whether all ranks were well."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(part, folder, rank, ranks, "--device", device) for rank in range(ranks)]
        end, well = time.time() + seconds, True
        for rank, process in enumerate(processes):
            try:
                _, errors = process.communicate(timeout=max(1, end - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
                print(f"{part}: rank {rank} was ended after {seconds} s", flush=True)
            if process.returncode:
                well = False
                print(f"{part}: rank {rank} ended with {process.returncode}\n{errors[-3000:]}", flush=True)
        return well


def package(ranks, seconds):
    """Exported on the CPU as test_distribution.py does, compiled for the GPU, run with no Python."""
    from safetensors.torch import load_file

    script, coil = ROOT / "test/python/distribution_programs.py", os.environ.get("COIL", ROOT / "build/bin/coil")
    names, well = ["mlp", "exchanges", "in_place", "experts", "sums"], True
    with tempfile.TemporaryDirectory() as folder:
        exporting = [
            subprocess.Popen([sys.executable, script, str(rank), str(ranks), folder, *names]) for rank in range(ranks)
        ]
        if any(p.wait(seconds) for p in exporting):
            print("package: nothing was exported", flush=True)
            return False
        for name in names:
            place = pathlib.Path(folder)
            for rank in range(ranks):
                done = subprocess.run(
                    [coil, "compile", place / f"{name}.{rank}.pt2", "-o", place / f"{name}.{rank}.coil"]
                    + ["--device", "cuda"],
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    print(f"package {name}: not compiled: {done.stderr[-600:]}", flush=True)
                    break
            if done.returncode:
                well = False
                continue
            try:
                done = subprocess.run(
                    [coil, "run", place / f"{name}.{{rank}}.coil", "--ranks", str(ranks)]
                    + ["--inputs", place / f"{name}.{{rank}}.in.safetensors"]
                    + ["--outputs", place / f"{name}.{{rank}}.got.safetensors"],
                    capture_output=True,
                    text=True,
                    timeout=30,
                    env=environment(folder, 0, ranks),
                )
                failure = done.stderr[-1500:] if done.returncode else ""
            except subprocess.TimeoutExpired:
                failure = "it did not end within 30 s"
            for rank in range(0 if failure else ranks):
                got = load_file(place / f"{name}.{rank}.got.safetensors")
                for key, want in load_file(place / f"{name}.{rank}.want.safetensors").items():
                    if not torch.allclose(got[key].double(), want.double(), rtol=2e-2, atol=2e-2):
                        failure = f"rank {rank}: result {key} is wrong"
            well = well and not failure
            print(f"package {name}: {failure or 'right'}", flush=True)
    return well


def faults(ranks, _):
    well = True
    for form in FORMS:
        for graphs in (False, True) if form == "nccl" else (form == "two",):
            with tempfile.TemporaryDirectory() as folder:
                given = ["--form", form, *(["--graphs"] if graphs else [])]
                processes = [
                    start("faults", folder, rank, ranks, *given, COIL_GROUP_TIMEOUT="4") for rank in range(ranks)
                ]
                ready = [p.stdout.readline() for p in processes]
                time.sleep(1.5)
                running = [p.poll() is None for p in processes]
                os.kill(processes[-1].pid, signal.SIGKILL)
                begin = time.time()
                try:
                    _, errors = processes[0].communicate(timeout=12)
                    code = processes[0].returncode
                except subprocess.TimeoutExpired:
                    processes[0].kill()
                    _, errors = processes[0].communicate()
                    code = None
                for p in processes:
                    p.kill()
                    p.wait()
                right = code == 1 and all(running) and "rank" in errors
                well = well and right
                print(
                    f"fault {form}{' in graphs' if graphs else ''}: {'right' if right else 'WRONG'}, "
                    f"{time.time() - begin:.1f} s, ready {[bool(r) for r in ready]}, ends with {code}: "
                    f"{errors.strip().splitlines()[-1][:300] if errors.strip() else ''}",
                    flush=True,
                )
    return well


STEPS = {
    "decoder": distribution_steps.decoder_main,
    "fsdp": distribution_steps.fsdp_main,
    "overlap": distribution_steps.overlap_main,
    "prefill": distribution_steps.prefill_main,
}
SMALL = {
    "decoder": {"sizes": {"width": 64, "head": 8, "heads": 8, "kv_heads": 4, "hidden": 96, "layers": 2}},
    "fsdp": {"sizes": {"words": 64, "tokens": 16, "width": 32, "heads": 4, "layers": 2}, "steps": 10},
    "overlap": {"exchanged": 16 << 20, "width": 512, "products": 16, "count": 16},
    "prefill": {"width": 512, "hidden": 2048, "tokens": (1024,)},
}


def on_cpu(part, rank, ranks, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/torch", rank=rank, world_size=ranks)
    failed = STEPS[part](rank, ranks, "cpu", **SMALL[part])
    sys.stdout.flush()
    os._exit(bool(failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(SECONDS)}; all of them where none is named")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--of", help=argparse.SUPPRESS)
    parser.add_argument("--form", default="nccl", help=argparse.SUPPRESS)
    parser.add_argument("--graphs", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    parts = given.parts or list(SECONDS)
    if given.of:
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if given.device == "cpu":
            return on_cpu(parts[0], rank, ranks, given.of)
        torch.cuda.set_device(rank)
        if parts[0] == "faults":
            return fault_main(rank, ranks, given.form, given.graphs)
        device = torch.device("cuda", rank)
        dist.init_process_group(
            "nccl", init_method=f"file://{given.of}/torch", rank=rank, world_size=ranks, device_id=device
        )
        of_programs = {"values": values_main, "latency": latency_main}
        if parts[0] in of_programs:
            failed = of_programs[parts[0]](rank, ranks, given.of)
        else:
            failed = STEPS[parts[0]](rank, ranks)
        sys.stdout.flush()
        os._exit(bool(failed))
    if given.device == "cuda":
        print(
            f"{given.ranks} of {torch.cuda.device_count()} {torch.cuda.get_device_name(0)}, torch {torch.__version__}"
        )
    failed = []
    for part in parts:
        begin = time.time()
        whole = {"package": package, "faults": faults}.get(part)
        well = whole(given.ranks, SECONDS[part]) if whole else ranks_of(part, given.ranks, SECONDS[part], given.device)
        print(f"{part}: {'well' if well else 'NOT WELL'}, {time.time() - begin:.0f} s", flush=True)
        failed += [] if well else [part]
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
