"""The rules of the house: data flows one way, rooms are small, headers say what they are for."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each folder includes itself and folders before it.
FLOW = [
    "support",
    "device",
    "tensor",
    "library_ops",
    "sym",
    "ops",
    "fx",
    "frontend",
    "target",
    "passes",
    "passes/graph",
    "ir",
    "lowering",
    "passes/loop",
    "scheduler",
    "codegen",
    "wrapper",
    "passes/wrapper",
    "autotune",
    "compiler",
]
# It must link without the compiler. Compiler folders above may use it.
RUNTIME = {"support", "tensor", "library_ops", "runtime"}
# Inside the runtime: each room includes itself and rooms before it; what lies deeper counts as its room.
ROOMS = ["views", "plan", "device", "groups", "ops", "host", "cuda", "metal", "executor", "c_api", "aoti"]
SOURCES = sorted(
    p
    for top in ("src", "include", "tools", "test", "bench", "examples")
    for p in (ROOT / top).rglob("*")
    if p.suffix in (".h", ".cpp", ".cuh", ".py")
)
LONGEST = 800
LONGEST_FUNCTION = 60
# Functions that are a list of entries, each of a few lines and none of which knows the others.
TABLES = re.compile(r"std::vector<Descriptor> \w+_ops\(\)|void add_\w+\((Table|ComplexRules)& t\)")


def name(path):
    return str(path.relative_to(ROOT))


def folder_of(path):
    """The layer that a path below src/ belongs to: `ir` of `ir/ir.h`, `passes/loop` of `passes/loop/winograd.h`."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "passes" and len(parts) > 2 else parts[0]


def folders():
    found = {folder_of(name(p).removeprefix("src/")) for p in SOURCES if name(p).startswith("src/")}
    return sorted(found)


@pytest.mark.parametrize("folder", folders())
def test_includes_follow_the_flow(folder):
    allowed = (
        RUNTIME
        if folder == "runtime"
        else {*FLOW[: FLOW.index(folder) + 1], *(["runtime"] if folder in FLOW[3:] else [])}
    )
    against = []
    for path in SOURCES:
        if name(path).startswith("src/") and folder_of(name(path).removeprefix("src/")) == folder:
            used = {folder_of(header) for header in re.findall(r'#include "([a-z_]+/[^"]+)"', path.read_text())}
            against += [
                f"{name(path)} includes {u}/"
                for u in sorted(used)
                if (u in FLOW or u == "runtime") and u not in allowed
            ]
    assert not against, "\n".join(against)


def test_heuristics_know_no_language():
    """What kernels are like is decided for every language: languages include the heuristics and what nests are."""
    against = []
    for path in (p for p in SOURCES if name(p).startswith("src/codegen/")):
        room = path.parts[len(ROOT.parts) + 2] if len(path.parts) > len(ROOT.parts) + 3 else ""
        used = re.findall(r'#include "codegen/([a-z_]+)/', path.read_text())
        if room == "heuristics":
            against += [f"{name(path)} includes codegen/{u}/" for u in used if u != "heuristics"]
    assert not against, "\n".join(against)


def functions(path):
    """The first line of each, its number, and how many lines there are, by how clang-format lays them out: a function
    goes from the last line before that begins where the closing brace stands.
    """
    lines = path.read_text().splitlines()
    for last, text in enumerate(lines):
        if text not in ("}", "  }"):
            continue
        begins = re.compile(text[:-1] + r"[^\s}#:]")
        first = next((n for n in range(last - 1, -1, -1) if begins.match(lines[n])), last)
        yield lines[first], first + 1, last - first + 1


def test_functions_are_short():
    """Kernels in src/device aside, whose parts would hand one another a dozen values in registers."""
    long = [
        f"{name(path)}:{number}: {count} lines"
        for path in SOURCES
        if name(path).startswith("src/") and not name(path).startswith("src/device/") and path.suffix != ".py"
        for first, number, count in functions(path)
        if count > LONGEST_FUNCTION and not TABLES.match(first)
    ]
    assert not long, "\n".join(long)


def test_rooms_of_the_runtime_follow_the_flow():
    against = []
    for path in (p for p in SOURCES if name(p).startswith("src/runtime/")):
        room = path.parts[len(ROOT.parts) + 2]
        for used in re.findall(r'#include "runtime/([a-z_]+)/', path.read_text()):
            if ROOMS.index(used) > ROOMS.index(room):
                against.append(f"{name(path)} includes runtime/{used}/")
    assert not against, "\n".join(against)


def test_files_are_rooms():
    long = [
        f"{name(p)}: {len(p.read_text().splitlines())} lines"
        for p in SOURCES
        if len(p.read_text().splitlines()) > LONGEST
    ]
    assert not long, "\n".join(long)


def test_headers_open_with_a_sentence():
    silent = [
        name(p)
        for p in SOURCES
        if p.suffix in (".h", ".cuh") and not re.match(r"\s*(#pragma once\s*)?(//|/\*)", p.read_text())
    ]
    assert not silent, "\n".join(silent)


def test_what_newcomers_read_is_short():
    """The README's table of what runs has few rows of a line each, and the page on speed is a page."""
    text = (ROOT / "README.md").read_text()
    table = [line for line in text.split("## Status")[1].split("\n## ")[0].splitlines() if line.startswith("| ")][2:]
    assert 0 < len(table) <= 15
    assert not [row for row in table if len(row) > 200]
    assert (ROOT / "docs/performance.md").stat().st_size < 25 * 1024


def test_the_page_of_stages_names_every_folder():
    table = (ROOT / "docs/architecture.md").read_text().split("## The program")[0]
    missing = [folder for folder in [*FLOW, "runtime"] if folder != "passes" and f"`{folder}`" not in table]
    assert not missing


def lines_with(pattern, own):
    """Of src/, but for the files that `own` matches."""
    return [
        f"{name(p)}:{line}"
        for p in SOURCES
        if name(p).startswith("src/") and not re.match(own, name(p))
        for line, text in enumerate(p.read_text().splitlines(), 1)
        if re.search(pattern, text)
    ]


def test_only_devices_know_devices():
    """Outside of what makes devices and targets, code asks a target what it can do, not which device it is."""
    own = r"src/(target/|tensor/device\.|runtime/(device|cuda|metal)/|codegen/(cpp|cuda|metal)/)"
    compares = lines_with(r"DeviceType::(CPU|CUDA)|as_cuda|cuda_emulate", own)
    assert not compares, "\n".join(compares)


def test_nothing_compares_kinds_of_device():
    """The registry of devices in the runtime names those that are built in, and treats them as all others."""
    own = r"src/(target/|tensor/device\.|runtime/(cuda|metal)/|codegen/(cpp|cuda|metal)/)"
    compares = lines_with(r"[!=]=\s*DeviceType::|DeviceType::\w+\s*[!=]=", own)
    assert not compares, "\n".join(compares)


def test_the_glossary_names_what_is_there():
    """A file that docs/glossary.md names is in src/, and a type or a field in one of its headers."""
    headers = "\n".join(p.read_text() for p in SOURCES if name(p).startswith("src/") and p.suffix == ".h")
    gone = []
    for code in re.findall(r"`([^`]+)`", (ROOT / "docs/glossary.md").read_text()):
        if "/" in code:
            there = (ROOT / "src" / code).exists()
        else:
            there = code.startswith((".", "torch.")) or re.search(rf"\b{re.escape(code.split('::')[-1])}\b", headers)
        if not there:
            gone.append(code)
    assert not gone, "\n".join(gone)


def test_passes_ask_for_traits_and_never_for_names():
    """What is known of a library operation stands in src/library_ops; only what makes or carries out a call
    names it.
    """
    named = re.compile(r'\bop\s*[!=]=\s*("|(?:\w+::)*k[A-Z])')
    text_of_other_languages = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
    compares = []
    for path in (p for p in SOURCES if p.suffix != ".py"):
        folder = path.parts[len(ROOT.parts) + 1]
        if not name(path).startswith("src/") or folder in ("library_ops", "codegen", "runtime"):
            continue
        compares += [
            f"{name(path)}: {found.group(0)}"
            for found in named.finditer(text_of_other_languages.sub("", path.read_text()))
        ]
    assert not compares, "\n".join(compares)
