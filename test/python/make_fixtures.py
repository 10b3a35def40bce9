"""Writes the archives under test/fixtures/ with the torch that runs it: make_fixtures.py FOLDER [SUFFIX].

Paths of this machine are taken out of the stack traces, so that the files say the same wherever they were made.
"""

import copy
import io
import json
import linecache
import os
import re
import sys
import types
import warnings
import zipfile

import torch

warnings.filterwarnings("ignore")


def load_programs():
    """The programs, under a file name without a folder."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixture_programs.py")
    with open(path) as f:
        source = f.read()
    module = types.ModuleType("fixture_programs")
    module.__file__ = "fixture_programs.py"
    sys.modules["fixture_programs"] = module
    linecache.cache["fixture_programs.py"] = (len(source), None, source.splitlines(True), "fixture_programs.py")
    exec(compile(source, "fixture_programs.py", "exec"), module.__dict__)
    return module


def scrub(program):
    for m in program.graph_module.modules():
        for node in m.graph.nodes if isinstance(m, torch.fx.GraphModule) else ():
            node.meta.pop("from_node", None)
            if trace := node.meta.get("stack_trace"):
                node.meta["stack_trace"] = re.sub(
                    r'File ".*/site-packages/', 'File "', re.sub(r'File ".*/dist-packages/', 'File "', trace)
                )
    return program


def entries(path):
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def write(path, content, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as z:
        for name, data in content.items():
            z.writestr(zipfile.ZipInfo(name), data, method)


def saved(tensors):
    out = io.BytesIO()
    torch.save(tensors, out)
    return out.getvalue()


def deflated(folder, suffix):
    """As any zip tool would pack it: deflated, without a top folder, under another model name."""
    content = {
        n.split("/", 1)[1].replace("model", "net").replace("nets/", "models/"): d
        for n, d in entries(f"{folder}/nested{suffix}.pt2").items()
    }
    write(f"{folder}/deflated{suffix}.pt2", content, zipfile.ZIP_DEFLATED)


def pickled(folder, suffix):
    """One weight as a payload of its own pickle, as tensor subclasses are kept."""
    content = entries(f"{folder}/nested{suffix}.pt2")
    name = "nested%s/data/weights/model_weights_config.json" % suffix
    config = json.loads(content[name])
    payload = config["config"]["lin.bias"]
    payload["use_pickle"] = True
    content[f"nested{suffix}/data/weights/" + payload["path_name"]] = saved(torch.nn.Parameter(torch.arange(4.0)))
    content[name] = json.dumps(config).encode()
    write(f"{folder}/pickled{suffix}.pt2", content)


def legacy(folder, suffix):
    """The layout of torch 2.8: one pickle for all weights, nodes without names of their own."""
    content = entries(f"{folder}/nested{suffix}.pt2")
    top = f"nested{suffix}/"
    kept = {n: d for n, d in content.items() if "data/weights/" not in n and "data/constants/" not in n}
    program = json.loads(kept[top + "models/model.json"])
    for node in program["graph_module"]["graph"]["nodes"]:
        node.pop("name", None)
        node.pop("is_hop_single_tensor_return", None)
    program.pop("guards_code", None)
    kept[top + "models/model.json"] = json.dumps(program).encode()
    kept[top + "data/weights/model.pt"] = saved(
        {"lin.weight": torch.ones(4, 8), "lin.bias": torch.arange(4.0), "calls": torch.zeros(())}
    )
    kept[top + "data/constants/model.pt"] = saved({})
    write(f"{folder}/legacy{suffix}.pt2", kept)


def main():
    folder, suffix = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    os.makedirs(folder, exist_ok=True)
    programs = load_programs()
    old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9)
    if old:
        torch.set_grad_enabled(False)  # torch 2.8 does not export writes of what needs gradients to inputs
    for name, make in programs.PROGRAMS.items():
        torch.manual_seed(0)
        module, args, kwargs, dynamic = make()
        try:
            program = torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dynamic)
            if name in programs.DECOMPOSED:
                torch.export.save(
                    scrub(copy.deepcopy(program).run_decompositions()), f"{folder}/{name}_dec{suffix}.pt2"
                )
            torch.export.save(scrub(program), f"{folder}/{name}{suffix}.pt2")
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {str(e)[:400]}")
    deflated(folder, suffix)
    if not old:  # what these rewrite is the newer layout
        pickled(folder, suffix)
        legacy(folder, suffix)
    print(torch.__version__, *sorted(os.listdir(folder)))


main()
