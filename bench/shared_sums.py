"""What a sum over the ranks of one machine takes: in one shot and in two over memory that they share, and by Gloo.

    python bench/shared_sums.py [--ranks N] [--calls N] [BYTES ...]

A process for each rank runs the three packages of each size in turns, one call of each at a time, so that a busy
machine slows all of them. Prints the median over the calls of the slowest rank's time, in microseconds.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/python"))
FORMS = {
    "one shot": {"distribution.one_shot_bytes": 1 << 40, "distribution.two_shot_bytes": 0},
    "two shots": {"distribution.one_shot_bytes": 0, "distribution.two_shot_bytes": 1 << 40},
    "gloo": {"distribution.one_shot_bytes": 0, "distribution.two_shot_bytes": 0},
}
SIZES = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


class Sum(torch.nn.Module):
    def forward(self, x):
        total = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "default")
        return torch.ops._c10d_functional.wait_tensor(total)


def compile_all(folder, sizes):
    import coil

    for size in sizes:
        for form, settings in FORMS.items():
            options = {key: str(value) for key, value in settings.items()}
            coil.compile(Sum(), (torch.ones(size // 4),), options=options).save(folder / f"{form}.{size}.coil")


def rank_main(folder, sizes, calls):
    """Times of this rank, a line for each size and form."""
    import coil

    torch.set_num_threads(1)
    for size in sizes:
        models = {form: coil.load(folder / f"{form}.{size}.coil") for form in FORMS}
        x, times = torch.ones(size // 4), {form: [] for form in FORMS}
        for turn in range(calls + 3):
            for form, model in models.items():
                begin = time.perf_counter()
                model(x)
                if turn >= 3:
                    times[form].append(time.perf_counter() - begin)
        for form, taken in times.items():
            print(size, form.replace(" ", "_"), *taken, flush=True)


def measure(folder, ranks, sizes, calls):
    env = os.environ | {"COIL_GROUP_STORE": f"file:{folder / 'store'}", "WORLD_SIZE": str(ranks)}
    command = [sys.executable, __file__, "--rank-of", str(folder), "--calls", str(calls), *map(str, sizes)]
    processes = [
        subprocess.Popen(command, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outputs = [p.communicate()[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit("a rank has failed")
    slowest = {}
    for text in outputs:
        for line in text.splitlines():
            size, form, *taken = line.split()
            so_far = slowest.setdefault((int(size), form), [0.0] * calls)
            slowest[int(size), form] = [max(a, float(b)) for a, b in zip(so_far, taken)]
    return {key: statistics.median(values) * 1e6 for key, values in slowest.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rank-of", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("bytes", type=int, nargs="*")
    given = parser.parse_args()
    sizes = given.bytes or SIZES
    if given.rank_of:
        return rank_main(given.rank_of, sizes, given.calls)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compile_all(folder, sizes)
        found = measure(folder, given.ranks, sizes, given.calls)
    print(
        f"{given.ranks} ranks, {given.calls} calls, microseconds\n{'bytes':>10} {'one shot':>10} {'two shots':>10} gloo"
    )
    for size in sizes:
        row = [found[size, form.replace(" ", "_")] for form in FORMS]
        print(f"{size:>10} {row[0]:>10.1f} {row[1]:>10.1f} {row[2]:.1f}")


if __name__ == "__main__":
    main()
