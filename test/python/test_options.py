"""Options by Inductor's names, and what is no option: mapped, named once, or refused."""

import warnings

import pytest
import torch

from coil_harness import coil_ok, export
from test_torch_compile import coil

inductor_options, parse = coil.inductor_options, coil.options.parse


def test_options_of_inductors_say_what_coils_say():
    assert parse({"triton.cudagraphs": True}).record
    assert parse({"max_autotune_gemm": True}).settings["max_autotune"] == "true"
    assert parse({"max_autotune_gemm": True, "max_autotune_pointwise": False}).settings["max_autotune"] == "true"
    assert parse({"epilogue_fusion": False}).settings["fuse_epilogues"] == "false"
    assert parse({"freezing": True}).freeze
    assert parse({"nan_asserts": True}).settings["assert_nan"] == "true"
    assert parse({"assume_32bit_indexing": True}).size_facts == ("index32",)
    assert parse({"force_disable_caches": True}).cache is None
    assert parse({"cpp.simdlen": 256}).settings["cpu.isa"] == "avx2"
    assert parse({"epilogue_fusion": False, "fuse_epilogues": True}).settings["fuse_epilogues"] == "true"
    assert parse({"cuda.graphs_kept": 3}).recordings == 3


def test_settings_of_the_process_count_unless_an_option_says_otherwise():
    config = torch._inductor.config
    with config.patch({"fallback_random": True, "triton.cudagraphs": True, "epilogue_fusion": False}):
        chosen = parse()
        assert chosen.fallback_random and chosen.record and chosen.settings["fuse_epilogues"] == "false"
        assert not parse({"fallback_random": False}).fallback_random
    assert not parse().fallback_random and "fuse_epilogues" not in parse().settings


def test_every_row_of_the_table_is_there_in_inductor_and_in_coil():
    for theirs, (ours, _) in inductor_options._TABLE.items():
        assert inductor_options.setting(theirs) is not inductor_options.NONE and ours in coil.settings()


@pytest.mark.usefixtures("fresh")
def test_an_option_without_meaning_is_named_once(monkeypatch):
    monkeypatch.setattr(inductor_options, "_named", set())
    x = torch.randn(4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            torch._dynamo.reset()
            options = {"shape_padding": True, "triton.max_tiles": 2}
            torch.testing.assert_close(torch.compile(torch.sin, backend="coil", options=options)(x), x.sin())
    told = [str(w.message) for w in caught if "Inductor" in str(w.message)]
    assert len(told) == 1 and "shape_padding, triton.max_tiles" in told[0]


@pytest.mark.parametrize(
    "options,said",
    [
        ({"no_such_thing": 1}, "unknown option 'no_such_thing'"),
        ({"max_autotune_gemm": "yes"}, "max_autotune_gemm takes True or False, not 'yes'"),
        ({"epilogue_fusion": 1}, "epilogue_fusion takes True or False"),
        ({"cpp.simdlen": 3}, "cpp.simdlen takes None, 512"),
        ({"fuse": "maybe"}, "fuse takes true or false"),
        ({"fuse": {}}, "fuse takes text"),
        ({"freeze": 2}, "freeze takes true or false"),
        ({"cache": 5}, "cache takes a path"),
        ({"log": 5}, "log takes names"),
        ({"size_facts": "odd"}, "size_facts takes multiple8"),
        ({"cuda.graphs_kept": 0}, "cuda.graphs_kept takes a number"),
        ({"debug_dir": True}, "debug_dir takes a path"),
        ([("fuse", True)], "options are a dictionary"),
        ({3: True}, "named by a string"),
    ],
)
def test_what_is_no_option_is_refused(options, said):
    with pytest.raises(coil.Error, match=said):
        parse(options)
    parse({"fuse": True})


def test_a_mode_that_is_none_is_refused():
    for mode in ("fast", 3, ["default"]):
        with pytest.raises(coil.Error, match="unknown mode"):
            parse(mode=mode)


@pytest.mark.parametrize(
    ("setting", "stored"),
    [("realize.reads=2", 2), ("realize.operations=2", 3), ("realize.bytes=100", 3), ("realize.bytes=1GiB", 1)],
)
def test_limits_of_realization_are_settings(setting, stored, tmp_path):
    """Of a sum of four values, each of 64 bytes, its parts get memory of their own where a limit says so."""

    class Sum(torch.nn.Module):
        def forward(self, a, b, c, d):
            return a + b + c + d

    export(Sum(), tuple(torch.randn(16) for _ in range(4)), tmp_path / "m.pt2")
    command = ["compile", tmp_path / "m.pt2", "-o", tmp_path / "m.coil", "--log", "lower"]
    loops = lambda *more: coil_ok(*command, *more).stderr.count(" = pointwise[")
    assert loops() == 1 and loops("--set", setting) == stored


def test_debug_folders_of_frames_are_apart(tmp_path):
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    compiled = torch.compile(f, backend="coil", options={"debug_dir": tmp_path})
    with torch.no_grad():
        compiled(torch.randn(5))
        compiled(torch.randn(5, 2))
    assert {p.name for p in tmp_path.iterdir()} == {f"{k}_inference" for k in range(4)}
