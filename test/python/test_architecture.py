"""docs/architecture.md shows what the compiler prints. `python test_architecture.py --write` brings the page up to
date.
"""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from coil_harness import ROOT, coil_ok  # noqa: E402

PAGE = ROOT / "docs/architecture.md"
BLOCK = re.compile(r"(<!-- coil: ([\w-]+) -->\n```\w*\n)(.*?)(```\n)", re.S)
OPTIONS = ["--set", "cpu.isa=avx2", "--set", "pack_weights=false"]


def stages(folder):
    """What each stage prints for the page's program, by name."""
    source = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S).group(1)
    (folder / "program.py").write_text(source)
    subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    log = coil_ok("compile", "program.pt2", "-o", "program.coil", "--log", "all", *OPTIONS, cwd=folder).stderr
    texts = {}
    for stage, line in re.findall(r"^\[([\w-]+)\] ?(.*)$", log, re.M):
        texts[stage] = texts.get(stage, "") + line + "\n"
    texts["kernels"] = texts["kernels"][texts["kernels"].index('extern "C"') :].rstrip() + "\n"
    coil_ok("compile", "program.pt2", "-o", "program.cpp", "--emit", "cpp", *OPTIONS, cwd=folder)
    texts["cpp"] = re.search(
        r"^void coil_program::run.*?^}\n", (folder / "program.cpp").read_text(), re.S | re.M
    ).group(0)
    return texts


def test_the_page_is_true(tmp_path):
    texts = stages(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 10
    wrong = [f"--- {stage} prints now:\n{texts[stage]}" for _, stage, shown, _ in blocks if shown != texts[stage]]
    assert not wrong, (
        "docs/architecture.md is out of date (python test/python/test_architecture.py --write):\n" + "\n".join(wrong)
    )


if __name__ == "__main__":
    import tempfile

    assert sys.argv[1:] == ["--write"], "usage: test_architecture.py --write"
    with tempfile.TemporaryDirectory() as name:
        now = stages(pathlib.Path(name))
    PAGE.write_text(BLOCK.sub(lambda m: m.group(1) + now[m.group(2)] + m.group(4), PAGE.read_text()))
