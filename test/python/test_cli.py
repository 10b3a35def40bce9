"""The command's manners: exit codes, one line of error, files whole or absent, many at once."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from coil_harness import COIL, ENVIRONMENT, coil, coil_ok, eager, export


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 4)

    def forward(self, x, scale):
        return {"y": torch.softmax(self.lin(x), 0) * scale, "n": x.shape[0]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an archive, its package and its inputs."""
    folder = tmp_path_factory.mktemp("net")
    torch.manual_seed(0)
    module, args = Net().eval(), (torch.randn(3, 8), torch.randn(4))
    export(module, args, folder / "net.pt2", {"x": {0: torch.export.Dim("n", min=1, max=50)}, "scale": None})
    coil_ok("compile", folder / "net.pt2", "-o", folder / "net.coil")
    before, want = eager(module, args)
    save_file(before, folder / "in.safetensors")
    save_file(want, folder / "want.safetensors")
    return folder


def refused(done, *words, code=1):
    """One line of error that says these words, and nothing else on stderr."""
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, (done.returncode, done.stderr)
    assert len(lines) == 1 and lines[0].startswith("coil: error: "), done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def given(folder, tmp_path, **changes):
    """The inputs with some replaced (None: left out)."""
    tensors = load_file(folder / "in.safetensors") | changes
    save_file({k: v for k, v in tensors.items() if v is not None}, tmp_path / "in.safetensors")
    return tmp_path / "in.safetensors"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["compile"],
        ["compile", "m.pt2"],
        ["compile", "m.pt2", "-o", "x", "--emit", "rust"],
        ["run", "m.coil", "--no-such"],
        ["run", "m.coil", "--threads", "many"],
        ["bench", "m", "--threads", "-1"],
    ],
)
def test_bad_usage_is_2(arguments):
    refused(coil(*arguments), code=2)


@pytest.mark.parametrize("command", [[], ["compile"], ["run"], ["bench"], ["explain"], ["opt"]])
def test_help_has_an_example(command):
    done = coil_ok(*command, "--help")
    assert not command or "Example:\n  coil " + command[0] in done.stdout
    assert not done.stderr


def test_no_such_file(tmp_path):
    refused(coil("compile", tmp_path / "no.pt2", "-o", tmp_path / "m.coil"), "no.pt2")
    refused(coil("run", tmp_path / "no.coil"), "no.coil")
    assert list(tmp_path.iterdir()) == []


def test_run_gives_eagers_results(made, tmp_path):
    for model in ("net.coil", "net.pt2"):
        coil_ok("run", made / model, "--inputs", made / "in.safetensors", "--outputs", tmp_path / "out.safetensors")
        got, want = load_file(tmp_path / "out.safetensors"), load_file(made / "want.safetensors")
        assert got.keys() == want.keys() and all(torch.allclose(got[k], want[k], atol=1e-5) for k in want)


def test_sample_inputs_are_the_default(made, tmp_path):
    for model in ("net.coil", "net.pt2"):
        coil_ok("run", made / model, "--outputs", tmp_path / "out.safetensors")
        got, want = load_file(tmp_path / "out.safetensors"), load_file(made / "want.safetensors")
        assert all(torch.allclose(got[k], want[k], atol=1e-5) for k in want)


def test_without_outputs_shapes_are_printed(made):
    assert "y: f32[3, 4]" in coil_ok("run", made / "net.coil").stdout


def test_inputs_are_checked(made, tmp_path):
    run = lambda **changes: coil(
        "run",
        made / "net.coil",
        "--inputs",
        given(made, tmp_path, **changes),
        "--outputs",
        tmp_path / "out.safetensors",
    )
    refused(run(x=None), "input x is missing", "expects x: f32[*, 8]")
    refused(run(z=torch.zeros(1)), "no input z")
    refused(run(x=torch.zeros(3, 8, dtype=torch.float64)), "input x is f64, expected f32")
    refused(run(x=torch.zeros(8)), "input x has 1 dimensions, expected 2")
    refused(run(x=torch.zeros(3, 9)), "x")
    refused(run(x=torch.zeros(51, 8)), "x")
    refused(run(scale=torch.zeros(5)), "scale")
    assert not (tmp_path / "out.safetensors").exists()


def test_inputs_file_is_checked(made, tmp_path):
    (tmp_path / "in.safetensors").write_bytes(b"\xff" * 64)
    refused(coil("run", made / "net.coil", "--inputs", tmp_path / "in.safetensors"), "in.safetensors")


def test_unknown_names_list_the_known(made, tmp_path):
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--set", "no.such=1"), "no.such", "cpu.isa")
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--set", "nothing"), "KEY=VALUE")
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--log", "no_such"), "no_such")
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--device", "abacus"), "abacus")
    assert list(tmp_path.iterdir()) == []


def test_bench_json(made, tmp_path):
    keys = [
        "model",
        "device",
        "threads",
        "compile_s",
        "load_s",
        "first_call_ms",
        "latency_ms",
        "peak_bytes",
        "planned_peak_bytes",
        "measured_peak_bytes",
        "weight_bytes",
        "kernels",
        "extern_calls",
    ]
    for model in ("net.pt2", "net.coil"):
        coil_ok("bench", made / model, "--json", tmp_path / "b.json", "--threads", 1, "--seconds", "0.2")
        result = json.loads((tmp_path / "b.json").read_text())
        assert list(result) == keys and list(result["latency_ms"]) == ["min", "median", "p95"]
        assert result["threads"] == 1 and result["device"] == "cpu" and result["model"] == "net"
        assert 0 < result["latency_ms"]["min"] <= result["latency_ms"]["median"] <= result["latency_ms"]["p95"]
        assert (result["compile_s"] > 0) == (model == "net.pt2")


def test_explain(made, tmp_path):
    text = coil_ok("explain", made / "net.pt2").stdout
    assert "test_cli.py:" in text  # the source lines that kernels come from
    coil_ok("explain", made / "net.pt2", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page and "http" not in page.replace("http://www.w3.org", "")


def test_same_input_same_bytes(made, tmp_path):
    coil_ok("compile", made / "net.pt2", "-o", tmp_path / "again.coil")
    assert (tmp_path / "again.coil").read_bytes() == (made / "net.coil").read_bytes()


@pytest.mark.parametrize("language", ["cpp", "python", "fx", "wrapper"])
def test_texts_go_to_standard_output(language, made, tmp_path):
    export(nn.Softmax(-1), (torch.randn(3, 8),), tmp_path / "m.pt2")
    coil_ok("compile", tmp_path / "m.pt2", "-o", tmp_path / "program", "--emit", language)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (
        coil_ok("compile", tmp_path / "m.pt2", "-o", "-", "--emit", language, cwd=empty).stdout
        == (tmp_path / "program").read_text()
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COIL, "compile", tmp_path / "m.pt2", "-o", "-", "--emit", language],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            cwd=empty,
        )
    refused(done, "standard output")
    if language == "wrapper":
        assert "lin.weight" in coil_ok("compile", made / "net.pt2", "-o", "-", "--emit", language, cwd=empty).stdout
    else:
        done = coil("compile", made / "net.pt2", "-o", "-", "--emit", language, cwd=empty)
        refused(done, "net.pt2 has weights", "name a file")
        assert done.stdout == ""
    assert not list(empty.iterdir())


def test_a_program_is_not_written_over(made, tmp_path):
    shutil.copy(made / "net.pt2", tmp_path / "net.pt2")
    refused(coil("compile", "net.pt2", "-o", "net.pt2", cwd=tmp_path), "which would be lost", code=2)
    assert (tmp_path / "net.pt2").read_bytes() == (made / "net.pt2").read_bytes()


def test_packages_do_not_go_to_standard_output(made, tmp_path):
    refused(
        coil("compile", made / "net.pt2", "-o", "-", cwd=tmp_path), "a package cannot go to standard output", code=2
    )
    assert not list(tmp_path.iterdir())


def test_full_disk_leaves_nothing(made, tmp_path):
    """RLIMIT_FSIZE stands in for a full disk: every write beyond it fails."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    done = coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", preexec_fn=limit)
    assert done.returncode == 1 and done.stderr.startswith("coil: error: "), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written(made, tmp_path):
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "none" / "m.coil"), "m.coil")
    refused(coil("run", made / "net.coil", "--outputs", "/proc/out.safetensors"), "out.safetensors")


def test_a_failed_compile_keeps_the_old_package(made, tmp_path):
    shutil.copy(made / "net.coil", tmp_path / "m.coil")
    (tmp_path / "bad.pt2").write_bytes((made / "net.pt2").read_bytes()[:1000])
    refused(coil("compile", tmp_path / "bad.pt2", "-o", tmp_path / "m.coil"), "bad.pt2")
    assert (tmp_path / "m.coil").read_bytes() == (made / "net.coil").read_bytes()


def test_a_killed_compile_leaves_no_package(made, tmp_path):
    for delay in (0.02, 0.08, 0.2):
        process = subprocess.Popen(
            [
                COIL,
                "compile",
                str(made / "net.pt2"),
                "-o",
                str(tmp_path / "m.coil"),
                "--cache",
                str(tmp_path / "cache"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        process.kill()
        process.wait()
        if (tmp_path / "m.coil").exists():  # it was done before the kill: then it is whole
            coil_ok("run", tmp_path / "m.coil")
            os.remove(tmp_path / "m.coil")
    coil_ok("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--cache", tmp_path / "cache")
    coil_ok("run", tmp_path / "m.coil")


def test_compiles_at_once_share_a_cache(made, tmp_path):
    start = lambda i: subprocess.Popen(
        [
            COIL,
            "compile",
            str(made / "net.pt2"),
            "-o",
            str(tmp_path / f"m{i % 2}.coil"),
            "--cache",
            str(tmp_path / "cache"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for process in [start(i) for i in range(4)]:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    for i in (0, 1):
        coil_ok("run", tmp_path / f"m{i}.coil")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "m0.coil", "m1.coil"]


def test_torn_cache_entries_are_misses(made, tmp_path):
    coil_ok("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--cache", tmp_path / "cache")
    entries = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert entries
    for damage in (
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b[:100] + bytes([b[100] ^ 255]) + b[101:] if len(b) > 100 else b"x",
    ):
        for entry in entries:
            entry.write_bytes(damage(entry.read_bytes()))
        coil_ok("compile", made / "net.pt2", "-o", tmp_path / "m.coil", "--cache", tmp_path / "cache")
        coil_ok("run", tmp_path / "m.coil")


def test_no_compiler_on_the_machine(made, tmp_path):
    (tmp_path / "bin").mkdir()
    environment = {k: v for k, v in ENVIRONMENT.items() if k not in ("CXX", "CC")} | {"PATH": str(tmp_path / "bin")}
    refused(coil("compile", made / "net.pt2", "-o", tmp_path / "m.coil", env=environment), "compiler")
    coil_ok("run", made / "net.coil", env=environment)


def test_packages_move(made, tmp_path):
    shutil.copy(made / "net.coil", tmp_path / "elsewhere.coil")
    coil_ok(
        "run",
        tmp_path / "elsewhere.coil",
        "--inputs",
        made / "in.safetensors",
        "--outputs",
        tmp_path / "out.safetensors",
        cwd=tmp_path,
    )


def test_bad_packages(made, tmp_path):
    whole = (made / "net.coil").read_bytes()
    for number, content in enumerate(
        [b"", b"PK\x03\x04", whole[:-1], whole[: len(whole) // 2], whole[1:], whole[:200] + b"\0" * 200 + whole[400:]]
    ):
        path = tmp_path / f"bad{number}.coil"
        path.write_bytes(content)
        done = coil("run", path)
        assert done.returncode in (0, 1), (number, done.returncode, done.stderr)
        if done.returncode:
            refused(done)
    refused(coil("run", tmp_path / "bad0.coil"), "bad0.coil")
    shutil.copy(made / "net.pt2", tmp_path / "archive.coil")
    refused(coil("run", tmp_path / "archive.coil"), "archive.coil")


def test_threads_do_not_change_results(made, tmp_path):
    for threads in (1, 2):
        coil_ok("run", made / "net.coil", "--threads", threads, "--outputs", tmp_path / f"{threads}.safetensors")
    assert torch.equal(load_file(tmp_path / "1.safetensors")["y"], load_file(tmp_path / "2.safetensors")["y"])
