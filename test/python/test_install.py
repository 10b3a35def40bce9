"""`pip install .` into a fresh environment, and what a user does next. Builds the wheel, so it runs with --full
only.
"""

import pathlib
import subprocess
import sys
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SCRIPT = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
x = torch.randn(8, 16)
for options in (
    {},
    {"mode": "max-autotune"},
    {"dynamic": True},
    {"options": {"fuse": False}},
    {"options": {"freeze": True}},
):
    torch._dynamo.reset()
    assert "coil" in torch._dynamo.list_backends()
    compiled = torch.compile(model, backend="coil", fullgraph=True, **options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    loss = compiled(x).square().mean()
    want = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    for got, w in zip(torch.autograd.grad(loss, list(model.parameters())), want):
        torch.testing.assert_close(got, w)
torch._dynamo.reset()
try:
    torch.compile(model, backend="coil", options={"fuze": True})(x)
except Exception as error:
    assert "unknown option 'fuze'; there are" in str(error) and "cpu.isa" in str(error), error
else:
    raise AssertionError("an unknown option was taken")
import coil
coil.compile(model, (x,)).save(sys.argv[1])
torch.testing.assert_close(coil.load(sys.argv[1])(x), model(x))
print(coil.__file__)
"""


@pytest.mark.full
def test_installed_wheel(tmp_path):
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # Torch, scikit-build-core and nanobind as they are here.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = home / "bin/python"
    built = subprocess.run(
        [python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", ROOT],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    done = subprocess.run([python, "-c", SCRIPT, tmp_path / "m.coil"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().startswith(str(packages))
