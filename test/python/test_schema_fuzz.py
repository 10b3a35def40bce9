"""Some draws of schema_fuzz.py: no crash, no internal error, little still to do; some of schema_values.py."""

import collections
import json
import subprocess
import sys

import torch

from coil_harness import ROOT

DRAWS = 900
# Draws of this seed that eager refuses and Coil computes, or whose metadata differ. The counts may only fall.
STILL = {"computed where eager refuses": 10, "other metadata": 3, "refusal without a name": 3}


def test_draws(tmp_path):
    report = tmp_path / "report.jsonl"
    script = ROOT / "test/python/schema_fuzz.py"
    subprocess.run(
        [sys.executable, script, "--seed", "11", "--draws", str(DRAWS), "--workers", "2", "--report", report],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    findings = [json.loads(line) for line in report.read_text().splitlines()]
    assert sum(sum(f["counts"].values()) for f in findings if "counts" in f) == DRAWS
    assert findings[-1]["draws"] == sum(findings[-1]["total"].values()) == DRAWS
    by_category = {}
    for f in findings:
        if "category" in f:
            by_category.setdefault(f["category"], []).append(f"#{f['number']} {f['draw'][:100]}: {f['coil'][:200]}")
    for category in ("wrong", "crash", "internal error"):
        assert not by_category.get(category)
    for category, most in STILL.items():
        assert len(by_category.get(category, [])) <= most, "\n".join(by_category[category])


def test_a_worker_that_dies_is_replaced(monkeypatch):
    """Its block is lost, as one crash, and another worker goes on behind it."""
    import schema_fuzz

    mortal = """
import json, sys
for line in sys.stdin:
    first, end = map(int, line.split())
    if first == 0:
        sys.exit(1)
    print(json.dumps({"done": [first, end], "counts": {"right": end - first}}))
    print(json.dumps({"end": True}), flush=True)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    start = lambda arguments: subprocess.Popen([sys.executable, "-c", mortal], **pipes)
    monkeypatch.setattr(schema_fuzz, "start_worker", start)
    found = []
    schema_fuzz.Sweep([], [(0, 120)], found.append).run(workers=1)
    counts = sum((collections.Counter(f["counts"]) for f in found if "counts" in f), collections.Counter())
    assert counts == {"crash": 1, "not drawn": schema_fuzz.BLOCK - 1, "right": 120 - schema_fuzz.BLOCK}


def test_values():
    """What Coil takes of some draws gives eager's values."""
    script = ROOT / "test/python/schema_values.py"
    done = subprocess.run(
        [sys.executable, script, "--seed", "21", "--draws", "500"], check=True, capture_output=True, text=True
    )
    counts = {what: int(n) for n, what in (part.split(" ", 1) for part in done.stdout.splitlines()[-1].split(", "))}
    assert "WRONG" not in counts, done.stdout
    assert counts["right"] > 150


def test_bytes_of_an_input_that_begins_behind_its_memory():
    """Offsets count elements, of another size in the view."""
    from schema_calls import _native

    held = torch.arange(12, dtype=torch.int32)[4:]
    graph = _native.TracedGraph("main")
    x = graph.placeholder("x", ("int32", (8,), (1,), 4, "cpu"))
    view = graph.call("aten.view.dtype", [x, _native.Literal.dtype("uint8")], {}, "view", None, "")
    graph.infer()
    graph.output([view])
    (got,) = graph.compile({"fallback": "false"}, None, [], "cpu")(held)
    assert torch.equal(got, held.view(torch.uint8)) and got.data_ptr() == held.data_ptr()
