"""Values of programs with collectives on several ranks, compiled, against eager's: by hand, and on GPUs.

    python bench/collectives_check.py [--ranks N] [--device cpu|cuda] [--backend coil] [NAME ...]

A process for each rank: over NCCL with a GPU of its own where CUDA is there, else over Gloo. Prints the largest
relative
error of each case of test/python/collective_cases.py over all ranks, and ends with 1 where one failed. That ends a run;
`--keep-going` starts the ranks anew for each case.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "test/python/own_exchange_cases.py"
sys.path.insert(0, str(SCRIPT.parent))


def run(names, ranks, device, backend, seconds):
    """What each rank found, by case; a rank that takes longer than `seconds` is ended."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{rank}.json") for rank in range(ranks)]
        processes = [
            subprocess.Popen(
                [
                    *(sys.executable, SCRIPT, str(rank), str(ranks), os.path.join(folder, "store"), files[rank]),
                    *names,
                    *("--device", device, "--backend", backend),
                ]
            )
            for rank in range(ranks)
        ]
        for process in processes:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        return [
            {line["name"]: line for line in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
            for file in files
        ]


def report(name, found):
    """Prints a row; True where all ranks were right."""
    failures = [
        f"rank {rank}: {results[name]['failed'] if name in results else 'did not come to it'}"
        for rank, results in enumerate(found)
        if "error" not in results.get(name, {})
    ]
    worst = max((results[name]["error"] for results in found if "error" in results.get(name, {})), default=float("nan"))
    print(
        f"{name:45} {'FAILED' if failures else f'{worst:.2e}'}",
        *failures,
        sep="\n    " if failures else " ",
        flush=True,
    )
    return not failures


def main():
    import collective_cases
    import own_exchange_cases  # noqa: F401  (which adds to them)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of cases; all of them where none is named")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count() if torch.cuda.is_available() else 2)
    parser.add_argument("--backend", default="coil", help="of torch.compile")
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--seconds", type=float, default=900, help="after which a rank that hangs is ended")
    given = parser.parse_args()
    names = given.names or list(collective_cases.CASES)
    print(f"{given.ranks} ranks on {given.device}, backend {given.backend}; largest relative error against eager")
    right = 0
    for batch in [[name] for name in names] if given.keep_going else [names]:
        found = run(batch, given.ranks, given.device, given.backend, given.seconds)
        right += sum([report(name, found) for name in batch])
    print(f"{right} right, {len(names) - right} not")
    sys.exit(right != len(names))


if __name__ == "__main__":
    main()
