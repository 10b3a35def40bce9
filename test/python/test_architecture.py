"""docs/architecture.md shows what the stages print, word for word. Run as a script, this rewrites its blocks."""
import pathlib
import re
import tempfile

import torch

from coil_harness import ROOT, coil_ok

DOCUMENT = ROOT / "docs/architecture.md"
BLOCK = re.compile(r"<!-- stage: ([\w-]+) -->\n(?:```text\n.*?```\n)?", re.DOTALL)
# One instruction set and no packed weights: what is printed must not depend on the machine.
OPTIONS = ["--threads", "1", "--log", "all", "--set", "cpu.isa=avx2", "--set", "pack_weights=0"]


def printed(document):
    """Stage -> the text it prints for the document's program."""
    source = re.search(r"```python\n(.*?)```", document, re.DOTALL).group(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        scope = {"torch": torch}
        exec(compile(source, "model.py", "exec"), scope)
        with torch.no_grad():
            program = torch.export.export(scope["Model"]().eval(), (torch.ones(3, 8),), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}})
        torch.export.save(program, folder / "model.pt2")
        log = coil_ok("compile", folder / "model.pt2", "-o", folder / "model.coil", *OPTIONS).stderr
    stages = {}
    for stage, line in re.findall(r"^\[([\w-]+)\] ?(.*)$", log, re.MULTILINE):
        stages.setdefault(stage, []).append(line)
    stages["kernels"] = kernel(stages["kernels"])
    return {stage: "\n".join(lines).strip("\n") + "\n" for stage, lines in stages.items()}


def kernel(lines):
    """The kernel alone, without the prelude before it."""
    first = max(i for i, line in enumerate(lines) if re.match(r"\S.*\bcoil_[0-9a-f]{16}\(", line))
    return lines[first:]


def rewritten(document):
    stages = printed(document)
    return BLOCK.sub(lambda m: f"<!-- stage: {m.group(1)} -->\n```text\n{stages[m.group(1)]}```\n", document)


def test_the_document_is_true():
    document = DOCUMENT.read_text()
    for old, new in zip(document.splitlines(), rewritten(document).splitlines()):
        assert old == new, "run test/python/test_architecture.py as a script to rewrite docs/architecture.md"
    assert document == rewritten(document)


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))
