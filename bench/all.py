"""Every benchmark; the tables go to the terminal and to build/bench.md, with the machine they were measured on."""

import logging
import pathlib
import platform
import time
import warnings

import calls
import dynamic
import growth
import memory
import micro
import models

RESULT = pathlib.Path(__file__).resolve().parents[1] / "build/bench.md"
PARTS = {
    "Models": models.run,
    "Memory-bound rows": micro.run,
    "Free sizes": dynamic.run,
    "Calls": calls.run,
    "Growth of compile cost": growth.run,
    "Peak memory": memory.run,
}


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    text = f"# Benchmarks\n\n{time.strftime('%Y-%m-%d')}, {processor()}, 2 threads\n"
    for name, part in PARTS.items():
        print(f"== {name}", flush=True)
        text += f"\n## {name}\n\n{part()}"
        RESULT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
