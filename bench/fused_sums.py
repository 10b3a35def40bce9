"""Sums over ranks in the kernels that read them, on GPUs of one machine: values and times.

    python bench/fused_sums.py [--ranks N] [--seconds S] [norms|decoder|faults ...]

A process for each rank and GPU. `norms`: twenty times a sum over the ranks, the residual's addition and an RMS norm,
in bf16, for 1, 6, 16 and 64 rows of 4,096 and 6,144: microseconds of one of them by Coil with the sum in the norm's
kernel and in a call of its own, by eager over NCCL and by Inductor, each as a CUDA graph; and whether Coil's values
are eager's, and have the same bits on all ranks. (64 rows are more than such kernels exchange: both of Coil's sides
are one there.) `decoder`: a call of distribution_gpu.py's four-layer decoder for 1 and 16 tokens, with and without
such kernels, as a package and through torch.compile. `faults`: a rank is killed between calls, with and without CUDA
graphs; the other is to end with an error that names it.
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
import torch.distributed._functional_collectives as funcol

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "build/python"), str(ROOT / "test/python")]
import distribution_gpu  # noqa: E402
import distribution_models as models  # noqa: E402
import distribution_steps as steps  # noqa: E402
from common import table  # noqa: E402

CHAIN = 20
ROWS, WIDTHS = (1, 6, 16, 64), (4096, 6144)
APART = {"distribution.fuse_sums": "false"}
BOUND = 0.03  # of bf16, against the largest value, after twenty norms


class Norms(torch.nn.Module):
    """What each rank has of a sum is the norm before it, scaled by numbers of the rank's own."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x, residual, scale, weight):
        for _ in range(self.count):
            residual = residual + funcol.all_reduce(x * scale, "sum", dist.group.WORLD)
            wide = residual.float()
            x = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(residual.dtype) * weight
        return x, residual


def inputs(rows, width, rank, device):
    """`scale` differs between ranks."""
    random = torch.Generator().manual_seed(rows)
    values = lambda *sizes: torch.randn(*sizes, generator=random)
    x, residual, weight = values(rows, width), values(rows, width), 1 + values(width) / 8
    scale = torch.randn(width, generator=torch.Generator().manual_seed(100 + rank))
    return [t.to(device, torch.bfloat16) for t in (x, residual, scale, weight)]


def microseconds(call, calls=20, rounds=5):
    """Of one norm: the median over rounds, of the slowest rank."""
    for _ in range(3):
        call()
    taken = []
    for _ in range(rounds):
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


def same_on_all_ranks(values, ranks):
    for value in values:
        bits = value.contiguous().view(torch.uint8)
        all_of_them = [torch.empty_like(bits) for _ in range(ranks)]
        dist.all_gather(all_of_them, bits)
        if not all(torch.equal(bits, other) for other in all_of_them):
            return False
    return True


def coil_call(module, args, settings, record):
    import coil

    model = coil.compile(module, tuple(args), options=settings)
    model._graph.record = record
    return lambda: model(*args)


def wrong_values(rows, width, rank, ranks):
    """What Coil's values are like for one norm and for twenty, plain and recorded, several calls in a row."""
    found = []
    args = inputs(rows, width, rank, "cuda")
    for count in (1, CHAIN):
        with torch.no_grad():
            want = Norms(count)(*args)
        for record in (False, True):
            call = coil_call(Norms(count), args, {}, record)
            for turn in range(4):
                got = call()
                torch.cuda.synchronize()
                error = max(steps.relative_error(g, w) for g, w in zip(got, want))
                if not error < BOUND:
                    found.append(f"{count} norms{', recorded' * record}, call {turn}: off by {error:.3g}")
                if not same_on_all_ranks(got, ranks):
                    found.append(f"{count} norms{', recorded' * record}, call {turn}: other bits on another rank")
    return found


def sides(args):
    module = Norms(CHAIN)

    def inductor():
        torch._dynamo.reset()
        fn = torch.compile(module, dynamic=False, mode="reduce-overhead")
        return lambda: fn(*args)

    yield "Coil, fused", lambda: coil_call(module, args, {}, True)
    yield "Coil, apart", lambda: coil_call(module, args, APART, True)
    yield "Coil, fused, no graph", lambda: coil_call(module, args, {}, False)
    yield "eager, NCCL", lambda: steps.graphed(lambda all_: module(*all_), args)
    yield "Inductor", inductor


def norms_main(rank, ranks, seconds):
    began, failed, rows_of_table = time.perf_counter(), 0, []
    for width in WIDTHS:
        for rows in ROWS:
            if steps.agreed(time.perf_counter() - began > seconds * 0.9, "cuda"):
                rows_of_table.append([f"{rows} x {width}", "not run, for time"])
                continue
            try:
                wrong = wrong_values(rows, width, rank, ranks)
            except Exception as e:  # noqa: BLE001  (the times of the others are of interest all the same)
                wrong = [steps.said(e)]
            failed |= bool(wrong)
            print(f"norms {rows} x {width} rank {rank}: {'right' if not wrong else 'WRONG: ' + '; '.join(wrong[:4])}",
                  flush=True)  # fmt: skip
            row = {}
            for name, make in sides(inputs(rows, width, rank, "cuda")):
                try:
                    with torch.no_grad():
                        row[name] = microseconds(make())
                except Exception as e:  # noqa: BLE001
                    failed |= "Coil" in name
                    row[name] = float("nan")
                    print(f"norms {rows} x {width} rank {rank}, {name}: failed: {steps.said(e)}", flush=True)
            rows_of_table.append([f"{rows} x {width}", *(f"{v:.2f}" for v in row.values())])
            if rank == 0:
                print(f"norms {rows} x {width}, us: " + ", ".join(f"{k} {v:.2f}" for k, v in row.items()), flush=True)
    if rank == 0:
        heads = ["rows", "Coil, fused", "Coil, apart", "Coil, fused, no graph", "eager, NCCL", "Inductor"]
        print(f"\nSum over {ranks} ranks, addition and RMS norm in bf16, us of one of {CHAIN} (CUDA graphs)\n")
        print(table(heads, [row + [None] * (len(heads) - len(row)) for row in rows_of_table]))
    return failed


def decoder_calls(module, x):
    def through_compile(settings):
        torch._dynamo.reset()
        fn = torch.compile(module, backend="coil", dynamic=False, options={**settings, "cuda.graphs": "true"})
        return lambda: fn(x)

    for name, settings in (("fused", {}), ("apart", APART)):
        for record in (False, True):
            packages = steps.Packages(module, x)
            yield f"package, {name}{', graphs' * record}", lambda: packages.call(settings, record)
        yield f"torch.compile, {name}, graphs", lambda: through_compile(settings)
    yield "eager, graphs", lambda: steps.graphed(module, x)
    yield "Inductor, graphs", lambda: steps.compiled(module, x, mode="reduce-overhead")


def decoder_main(rank, ranks, seconds):
    began, failed, found = time.perf_counter(), 0, {}
    sizes = {"width": 4096, "head": 128, "heads": 32, "kv_heads": 8, "hidden": 14336, "layers": 4}
    torch.manual_seed(rank)
    with torch.device("cuda"):
        module = models.decoder(models.SharedLayer, ranks, **sizes).to(torch.bfloat16).eval().requires_grad_(False)
    for tokens in (1, 16):
        x = torch.randn(tokens, 4096, generator=torch.Generator().manual_seed(tokens)).to("cuda", torch.bfloat16)
        with torch.no_grad():
            want = module(x)
            for name, make in decoder_calls(module, x):
                if steps.agreed(time.perf_counter() - began > seconds * 0.9, "cuda"):
                    continue
                try:
                    call = make()
                    error = steps.relative_error(call(), want)
                    took = f"{steps.milliseconds(call, 'cuda', 20):.3f}" if error < BOUND else f"WRONG by {error:.2g}"
                    failed |= error >= BOUND
                except Exception as e:  # noqa: BLE001
                    failed |= "package" in name
                    took, error = "failed: " + steps.said(e), float("nan")
                found.setdefault(name, {})[tokens] = took
                if rank == 0:
                    print(f"decoder {tokens:>2} tokens, {name}: {took} ms, error {error:.2g}", flush=True)
    if rank == 0:
        print(f"\nDecoder of {sizes}, ms of a call\n")
        print(table(["side", "1 token", "16 tokens"], [[n, r.get(1), r.get(16)] for n, r in found.items()]))
    return failed


def fault_main(rank, record):
    """Calls until something ends it."""
    import coil

    call = coil_call(Norms(CHAIN), inputs(6, 4096, rank, "cuda"), {}, record)
    call()
    torch.cuda.synchronize()
    print("ready", flush=True)
    try:
        while True:
            call()
            torch.cuda.synchronize()
    except coil.Error as e:
        print(f"coil.Error: {e}", file=sys.stderr, flush=True)
        os._exit(1)


def start(part, folder, rank, ranks, seconds, **more):
    return subprocess.Popen(
        [sys.executable, __file__, "--of", folder, "--seconds", str(seconds), part],
        env=distribution_gpu.environment(folder, rank, ranks, **more),
        stderr=subprocess.PIPE,
        text=True,
        **({"stdout": subprocess.PIPE} if part.startswith("fault") else {}),
    )


def ranks_of(part, ranks, seconds):
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(part, folder, rank, ranks, seconds) for rank in range(ranks)]
        end, well = time.time() + seconds + 20, True
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


def faults(ranks, seconds):
    well = True
    for part in ("fault", "fault-graphs"):
        with tempfile.TemporaryDirectory() as folder:
            processes = [start(part, folder, rank, ranks, seconds, COIL_GROUP_TIMEOUT="4") for rank in range(ranks)]
            ready = [p.stdout.readline() for p in processes]
            time.sleep(1.5)
            os.kill(processes[-1].pid, signal.SIGKILL)
            begin, code, errors = time.time(), None, ""
            try:
                _, errors = processes[0].communicate(timeout=20)
                code = processes[0].returncode
            except subprocess.TimeoutExpired:
                pass
            for p in processes:
                p.kill()
                p.wait()
            right = all(ready) and code == 1 and f"rank {ranks - 1}" in errors
            well = well and right
            last = errors.strip().splitlines()[-1][:300] if errors.strip() else ""
            print(f"{part}: {'right' if right else 'WRONG'}, {time.time() - begin:.1f} s, ends with {code}: {last}",
                  flush=True)  # fmt: skip
    return well


MAIN = {"norms": norms_main, "decoder": decoder_main}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="norms, decoder, faults; all of them where none is named")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=200, help="for each part")
    parser.add_argument("--of", help=argparse.SUPPRESS)
    given = parser.parse_args()
    parts = given.parts or ["faults", "norms", "decoder"]
    if given.of:
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(rank)
        dist.init_process_group(
            "nccl",
            init_method=f"file://{given.of}/torch",
            rank=rank,
            world_size=ranks,
            device_id=torch.device("cuda", rank),
        )
        if parts[0].startswith("fault"):
            return fault_main(rank, parts[0].endswith("graphs"))
        failed = MAIN[parts[0]](rank, ranks, given.seconds)
        sys.stdout.flush()
        os._exit(bool(failed))
    well = [
        faults(given.ranks, given.seconds) if p == "faults" else ranks_of(p, given.ranks, given.seconds) for p in parts
    ]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
