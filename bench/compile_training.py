"""Coil's own share of what a training step (forward, backward, AdamW; bf16 autocast) takes to compile: seconds in its
backend calls, without a cache (NVRTC's of its own is off), and with one that another process filled.

usage: compile_training.py [bert|gpt2|small,...] [--device cuda] [--layers N] [--set KEY=VALUE ...]
The rest of the first step is Dynamo's, AOTAutograd's and eager's. `small` is a model of two layers, for machines
without a GPU.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def model_of(name, layers, device):
    import torch
    import transformers

    rows = (16, 512) if name == "bert" else (8, 1024) if name == "gpt2" else (2, 64)
    words = 30522 if name == "bert" else 50257 if name == "gpt2" else 512
    ids = torch.randint(0, words, rows, device=device)
    depth = {} if layers is None else {"num_hidden_layers": layers}
    match name:
        case "bert":
            model = transformers.BertForMaskedLM(transformers.BertConfig(**depth))
        case "gpt2":
            model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **depth))
        case _:
            model = transformers.BertForMaskedLM(
                transformers.BertConfig(
                    vocab_size=words,
                    hidden_size=64,
                    num_hidden_layers=layers or 2,
                    num_attention_heads=4,
                    intermediate_size=128,
                )
            )
    return model.to(device).train(), dict(input_ids=ids, labels=ids)


def watch(graphs):
    """Notes each graph that Coil compiles: seconds in Python's translation and in the native compile, and the stages of
    that.
    """
    import coil.dynamo as dynamo

    translate, compile = dynamo.translate, dynamo._compile

    def translated(*args, **kwargs):
        start = time.perf_counter()
        try:
            return translate(*args, **kwargs)
        finally:
            graphs.append({"translate": time.perf_counter() - start})

    def made(traced, options, name, **kwargs):
        start = time.perf_counter()
        graph = compile(traced, options, name, **kwargs)
        graphs[-1] |= {
            "name": name,
            "compile": time.perf_counter() - start,
            "kernels": graph.kernels,
            "stages": dict(graph.stages),
        }
        return graph

    dynamo.translate, dynamo._compile = translated, made


def one_side(a):
    import torch

    import coil  # noqa: F401

    torch.manual_seed(0)
    graphs = []
    watch(graphs)
    model, batch = model_of(a.names, a.layers, a.device)
    options = {"cache": a.cache} | dict(s.split("=", 1) for s in a.set)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    forward, update = (
        torch.compile(model, backend="coil", options=options),
        torch.compile(optimizer.step, backend="coil", options=options),
    )
    wait = torch.cuda.synchronize if a.device != "cpu" else lambda: None

    def step():
        with torch.autocast(a.device.split(":")[0], torch.bfloat16):
            loss = forward(**batch).loss
        loss.backward()
        update()
        optimizer.zero_grad(set_to_none=True)
        wait()
        return loss

    wait()
    start = time.perf_counter()
    loss = step()
    print(json.dumps({"first_step": time.perf_counter() - start, "loss": loss.item(), "graphs": graphs}))


def report(name, side, said):
    graphs = said["graphs"]
    own = [g["translate"] + g["compile"] for g in graphs]
    print(
        f"{name:6s} {side:5s} first step {said['first_step']:6.2f} s, in Coil {sum(own):6.2f} s: translation "
        f"{sum(g['translate'] for g in graphs):5.2f}, native {sum(g['compile'] for g in graphs):5.2f}; "
        f"{len(graphs)} graphs, {sum(g['kernels'] for g in graphs)} kernels"
    )
    for g, seconds in zip(graphs, own):
        print(f"         {g['name']:10s} {seconds:6.2f} s, {g['kernels']} kernels")
    stages = collections.Counter()
    for g in graphs:
        stages.update(g["stages"])
    print(
        "         stages: "
        + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.most_common(8) if seconds >= 0.005),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?", default="bert,gpt2")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    parser.add_argument("--set", action="append", default=[])
    a = parser.parse_args()
    if a.cache:
        return one_side(a)
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'build/python'}:{os.environ.get('PYTHONPATH', '')}",
        "PYTHONWARNINGS": "ignore",
        "CUDA_CACHE_DISABLE": "1",
    }
    if "PYTHONPATH" in os.environ and "build-gpu" in os.environ["PYTHONPATH"]:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    for name in a.names.split(","):
        with tempfile.TemporaryDirectory() as folder:
            for side in ("cold", "warm"):
                command = [
                    sys.executable,
                    __file__,
                    name,
                    "--device",
                    a.device,
                    "--cache",
                    folder,
                    *(["--layers", str(a.layers)] if a.layers else []),
                    *(f"--set={s}" for s in a.set),
                ]
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                if done.returncode:
                    print(f"{name} {side}: {' '.join(done.stderr.split())[-600:]}", flush=True)
                    break
                report(name, side, json.loads(done.stdout.strip().splitlines()[-1]))


if __name__ == "__main__":
    main()
