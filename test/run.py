#!/usr/bin/env python3
"""Runs every kind of test and ends with one line, `N passed, N failed`.

usage: test/run.py [--all] [PART ...]     parts: unit lit python (all of them when none is named) and fuzz
Of Python tests with one case a half is run, of the cases of others an eighth, other ones with each commit; all of them
with --all.
The unit tests are built by Clang with the address and undefined-behaviour sanitizers, the command and what Python tests
by GCC as released.
Needs only Python's own library here; the tests themselves use build/venv. Exit 0 when nothing failed.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.path.join(ROOT, "build/venv/bin/python")
LIT = os.path.join(ROOT, "build/venv/bin/lit")


def stream(command, env=None):
    """Runs a command, echoing what it prints; returns its exit code and its text."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    lines = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    return process.wait(), "".join(lines)


def count(pattern, text):
    """The last number that the pattern finds."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def build(preset, *targets):
    """Configures and builds; exits at the first error, since nothing after it can be tested."""
    folder = "build" if preset == "release" else "build-debug"
    code, _ = stream(["cmake", "--preset", preset, "--log-level=WARNING"])
    if code == 0:
        code, _ = stream(["ninja", "-C", folder, *targets])
    if code:
        sys.exit(f"the {preset} build failed\n0 passed, 1 failed")


LEAK_CHECK_FAILED = "LeakSanitizer has encountered a fatal error"


def finds_leaks():
    """Whether LeakSanitizer may stop this process's threads, which some containers forbid; where it may not, every run
    that asks for it fails at its end.
    """
    asked = subprocess.run(
        ["build-debug/bin/unit_tests", "--gtest_list_tests"],
        cwd=ROOT,
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=1"},
        capture_output=True,
        text=True,
    )
    if failed := LEAK_CHECK_FAILED in asked.stderr:
        print("LeakSanitizer does not run here: leaks are not looked for", flush=True)
    return not failed


SHARDS = 12  # of unequal length, so that no processor waits long for the last


def unit():
    """The unit tests in parts, as many side by side as there are processors."""
    build("debug", "unit_tests", "device_conformance")
    # oneDNN brings GCC's OpenMP along, beside Clang's: threads of neither may spin while they wait for the other's.
    env = os.environ | {
        "OMP_WAIT_POLICY": "passive",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "GTEST_TOTAL_SHARDS": str(SHARDS),
    }
    # Where threads end while LeakSanitizer looks, it may fail itself, once in some forty parts: then again.
    tries = (1, 1, 0) if finds_leaks() else (0,)

    def run(shard):
        for leaks in tries:
            asan = {"ASAN_OPTIONS": f"detect_leaks={leaks}:detect_stack_use_after_return=0"}
            done = subprocess.run(
                ["build-debug/bin/unit_tests", "--gtest_brief=1"],
                cwd=ROOT,
                env=env | asan | {"GTEST_SHARD_INDEX": str(shard)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            if LEAK_CHECK_FAILED not in done.stdout:
                break
            print(f"LeakSanitizer failed after part {shard}, which is run again", flush=True)
        return done

    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for shard in pool.map(run, range(SHARDS)):
            print(shard.stdout, flush=True)
            passed += count(r"\[  PASSED  \] (\d+) test", shard.stdout)
            failed += count(r"(\d+) FAILED TEST", shard.stdout) or int(shard.returncode != 0)
    return passed, failed


def lit():
    code, text = stream([LIT, "-s", "--timeout", "120", "test/lit"])
    passed, failed = count(r"Passed\s*:\s*(\d+)", text), count(r"Failed\s*:\s*(\d+)", text)
    return passed, failed or int(code != 0)


SHARES = 8


def share():
    """The share of this commit; the first where git knows of none."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return f"{int(commit.stdout or '0', 16) % SHARES if commit.returncode == 0 else 0}/{SHARES}"


def python(every_case):
    command = [PYTHON, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "--durations", "30", "test/python"]
    if not every_case:
        command += ["--share", (part := share())]
        print(f"share {part} of the tests; all of them: test/run.py --all python", flush=True)
    code, text = stream(command)
    passed, failed = count(r"(\d+) passed", text), count(r"(\d+) failed", text) + count(r"(\d+) error", text)
    return passed, failed or int(code != 0)


def fuzz():
    """A short run of each libFuzzer target from a fixed seed; longer ones are for a person to start
    (test/fuzz/CMakeLists.txt).
    """
    configure = ["cmake", "--preset", "fuzz", "--log-level=WARNING"]
    targets = {
        "archive": "test/fixtures",
        "text": "test/fuzz/text",
        "schema": "test/fuzz/schema",
        "package": "test/fuzz/package",
    }
    if stream(configure)[0] or stream(["ninja", "-C", "build-fuzz", *(f"fuzz_{t}" for t in targets)])[0]:
        return 0, len(targets)
    failed = 0
    for target, seeds in targets.items():
        os.makedirs(os.path.join(ROOT, "build-fuzz/found", target), exist_ok=True)
        options = [
            "-seed=1",
            "-max_total_time=30",
            "-timeout=20",
            "-verbosity=0",
            "-print_funcs=0",
            "-print_final_stats=1",
            "-artifact_prefix=build-fuzz/",
        ]
        options += [f"-dict={words}"] if os.path.exists(words := f"test/fuzz/{target}.dict") else []
        failed += stream([f"build-fuzz/bin/fuzz_{target}", *options, f"build-fuzz/found/{target}", seeds])[0] != 0
    return len(targets) - failed, failed


PARTS = {"unit": unit, "lit": lit, "python": python, "fuzz": fuzz}


def main(arguments):
    names, every_case = [a for a in arguments if a != "--all"], "--all" in arguments
    if unknown := [n for n in names if n not in PARTS]:
        sys.exit(f"unknown part {unknown[0]} ({', '.join(PARTS)})")
    build("release", "all")
    total, rows = [0, 0], []
    for name in names or [p for p in PARTS if p != "fuzz"]:
        print(f"== {name}", flush=True)
        start = time.time()
        passed, failed = python(every_case) if name == "python" else PARTS[name]()
        rows.append(f"{name:10s} {passed:6d} passed {failed:5d} failed {time.time() - start:7.0f} s")
        total = [total[0] + passed, total[1] + failed]
    print("\n".join(["", *rows, f"{total[0]} passed, {total[1]} failed"]))
    return total[1] != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
