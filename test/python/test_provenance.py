"""`--provenance`: from incoming nodes to the lines of what was written, and back; and the page of `coil explain
--html`.
"""

import json
import re
import shutil
import subprocess

import pytest
import torch

from coil_harness import coil, coil_ok, export
from models import SMALL


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.scale = (
            torch.nn.Linear(4, 8),
            torch.nn.LayerNorm(8),
            torch.nn.Parameter(torch.ones(200, 200)),
        )

    def forward(self, a, c):
        x = self.linear(a)
        x = x.sin()
        x = x.t() + c
        folded = (self.scale * 2).exp()
        return self.norm(x), torch.softmax(x, -1) @ folded[:8, :8]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("provenance") / "net.pt2"
    export(Net(), (torch.randn(8, 4), torch.randn(8, 8)), path)
    return path


def provenance(archive, *options):
    file = archive.with_suffix(".json")
    coil_ok("compile", archive, "-o", archive.with_suffix(".out"), "--provenance", file, *options)
    return json.loads(file.read_text())


def check_both_ways(p):
    for name, node in p["nodes"].items():
        assert all(name in p["incoming"][i]["nodes"] for i in node["incoming"] if i in p["incoming"])
        assert all(name in p["calls"][c]["nodes"] for c in node["calls"])
    for name, node in p["incoming"].items():
        assert all(name in p["nodes"][n]["incoming"] for n in node["nodes"])
        assert all(name in p["calls"][c]["incoming"] for c in node["calls"])
    for k, call in enumerate(p["calls"]):
        assert call["nodes"] and call["incoming"], call
        assert all(k in p["nodes"][n]["calls"] for n in call["nodes"])
        assert all(k in p["incoming"][i]["calls"] for i in call["incoming"])


def test_a_call_names_what_it_computes_and_not_what_it_reads(archive):
    p = provenance(archive)
    check_both_ways(p)
    linear = next(c for c in p["calls"] if c["name"] == "linear" and "linear" in c["incoming"])
    assert linear["incoming"] == ["linear"] and re.fullmatch(r"test_provenance\.py:\d+", linear["where"])
    kernels = [c for c in p["calls"] if c["kind"] == "kernel"]
    assert any({"sin", "add"} <= set(c["incoming"]) for c in kernels)
    assert not any("linear" in c["incoming"] for c in kernels)


def test_decomposed_and_folded_nodes_keep_their_origins(archive):
    p = provenance(archive)
    assert len(p["incoming"]["softmax"]["nodes"]) + len(p["incoming"]["layer_norm"]["nodes"]) >= 2
    assert p["incoming"]["softmax"]["calls"] and p["incoming"]["layer_norm"]["calls"]
    folded = [name for name, node in p["nodes"].items() if name.endswith("_folded")]
    assert folded and {"exp", "mul"} <= {i for name in folded for i in p["nodes"][name]["incoming"]}


def test_stack_traces_are_told_once(archive):
    p = provenance(archive)
    traces = p["stack_traces"]
    assert traces and len(set(traces)) == len(traces) and all("line " in t for t in traces)
    told = [k for call in p["calls"] for k in call.get("stack_traces", ())]
    assert set(told) == set(range(len(traces))) and len(told) > len(traces)
    for call in p["calls"]:
        if line := call.get("where"):
            assert any(f"line {line.split(':')[1]}," in traces[k] for k in call["stack_traces"]), call


@pytest.mark.parametrize("form", ["python", "fx", "cpp", "wrapper"])
def test_lines_of_the_text(archive, form):
    p = provenance(archive, "--emit", form)
    assert p["form"] == form
    check_both_ways(p)
    text = archive.with_suffix(".out").read_text().splitlines()
    for call in p["calls"]:
        first, last = call["lines"]
        here = "\n".join(text[first - 1 : last])
        assert call["name"] in here or (form == "cpp" and call["kind"] == "library" and "op" in here), (call, here)


@pytest.mark.parametrize("name", ["bert", "resnet"])
def test_on_a_model(name, tmp_path):
    module, args, dynamic, _ = SMALL[name]()
    export(module, args, tmp_path / "m.pt2", dynamic)
    check_both_ways(provenance(tmp_path / "m.pt2"))


# ---- The page
# ----------------------------------------------------------------------------------------------------


def test_page_is_whole(archive, tmp_path):
    page = tmp_path / "page.html"
    coil_ok("explain", archive, "--html", page)
    text = page.read_text()
    for section in ("summary", "memory", "calls", "kernels", "before", "after", "fusions"):
        assert f'<section id="{section}">' in text
    assert 'src="' not in text and 'href="http' not in text and "test_provenance.py:" in text
    assert re.search(r'<g class="block" data-text="buf\d+', text)
    targets = set(re.findall(r'href="#([^"]+)"', text))
    assert targets <= set(re.findall(r'id="([^"]+)"', text))


def test_loops_of_one_node_are_one_line(archive):
    said = coil_ok("explain", archive).stdout
    lines = said[said.index("one kernel for") :].splitlines()
    assert any(", 2 loops" in line or ", 3 loops" in line or ", 4 loops" in line for line in lines), said
    assert all(a != b for a, b in zip(lines, lines[1:]) if a.startswith("      ")), said


def test_page_with_measured_times(archive, tmp_path):
    page = tmp_path / "page.html"
    coil_ok("explain", archive, "--html", page, "--measure")
    text = page.read_text()
    calls = re.findall(r'<tr class="item" id="call\d+">', text)
    times = re.findall(r'<td class="time">([0-9.]+) ms <span class="quiet">([0-9.]+) %</span></td>', text)
    assert len(times) == len(calls) > 0 and 98 < sum(float(share) for _, share in times) < 102
    coil_ok("explain", archive, "--html", page)
    assert '<td class="time">' not in page.read_text()


def test_debug_folder(archive, tmp_path):
    coil_ok("compile", archive, "-o", tmp_path / "m.coil", "--debug-dir", tmp_path / "debug")
    names = {p.name for p in (tmp_path / "debug").iterdir()}
    assert {
        "00_graph.txt",
        "fx_graph_transformed.txt",
        "ir_pre_fusion.txt",
        "ir_post_fusion.txt",
        "wrapper.txt",
        "kernels.cpp",
        "timings.txt",
    } <= names
    assert re.search(r"^ +[0-9.]+ ms  kernels$", (tmp_path / "debug/timings.txt").read_text(), re.M)
    coil_ok("compile", archive, "-o", tmp_path / "other.coil")
    assert (tmp_path / "m.coil").read_bytes() == (tmp_path / "other.coil").read_bytes()
    (tmp_path / "file").write_text("")
    done = coil("compile", archive, "-o", tmp_path / "no.coil", "--debug-dir", tmp_path / "file")
    assert done.returncode == 1 and "file" in done.stderr and not (tmp_path / "no.coil").exists()


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_page_in_a_browser(archive, tmp_path):
    """The search hides what does not hold the words; nothing of the script fails."""
    page = tmp_path / "page.html"
    coil_ok("explain", archive, "--html", page)
    script = """<script>addEventListener('load', () => {
      const search = document.getElementById('search');
      search.value = 'softmax'; search.dispatchEvent(new Event('input'));
      const shown = [...document.querySelectorAll('.item')].filter(i => !i.classList.contains('hidden'));
      const right = shown.every(i => i.textContent.includes('softmax'));
      document.title = 'RESULT ' + shown.length + ' ' + right + ' ' + document.querySelectorAll('.item').length;
    });</script>"""
    page.write_text(page.read_text().replace("</body>", script + "</body>"))
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    shown, right, all_items = re.search(r"<title>RESULT (\d+) (\w+) (\d+)</title>", done.stdout).groups()
    assert right == "true" and 0 < int(shown) < int(all_items)
