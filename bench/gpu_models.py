"""Inference of models in bf16 on a GPU: eager, Inductor and Coil, the last both through torch.compile and as a package
made from a `.pt2` by the command; each with and without CUDA graphs.

usage: gpu_models.py [NAME,...] [--sides NAME,...] [--seconds N] [--set KEY=VALUE ...]     settings of Coil's sides:
cuda.dependent_launch=true
Milliseconds of calls waited for one by one (a package: as `coil bench` has them), seconds of the first call or of `coil
compile`, distance from eager.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

import torch

import gpu_sides as sides

BF16 = torch.bfloat16
LLAMA = dict(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    vocab_size=128256,
)
COMPILED = {
    "inductor": ("inductor", None),
    "inductor graphs": ("inductor", "reduce-overhead"),
    "coil": ("coil", None),
    "coil graphs": ("coil", "reduce-overhead"),
}


class Result(torch.nn.Module):
    """The one tensor of interest of what a model returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        out = self.model(x)
        return out.logits if hasattr(out, "logits") else out.last_hidden_state


def transformer(model, config, shape, vocabulary=None, **settings):
    def make():
        import transformers

        torch.manual_seed(0)
        module = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
        return Result(module).to(BF16), (
            torch.randint(0, vocabulary, shape) if vocabulary else torch.randn(shape, dtype=BF16)
        )

    return make


MODELS = {
    "bert_16x512": transformer("BertModel", "BertConfig", (16, 512), 30522),
    "gpt2_8x1024": transformer("GPT2LMHeadModel", "GPT2Config", (8, 1024), 50257, use_cache=False),
    "llama1b_1x2048": transformer("LlamaForCausalLM", "LlamaConfig", (1, 2048), 128256, use_cache=False, **LLAMA),
    "resnet50_64": transformer("ResNetModel", "ResNetConfig", (64, 3, 224, 224)),
    "vit_64": transformer("ViTModel", "ViTConfig", (64, 3, 224, 224)),
    "bert_1x128": transformer("BertModel", "BertConfig", (1, 128), 30522),
}


def coil(*arguments):
    done = subprocess.run([os.environ["COIL"], *map(str, arguments)], capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


class Package:
    """The program as `coil compile` makes it."""

    def __init__(self, module, x, folder):
        from safetensors.torch import save_file

        self.folder = pathlib.Path(folder)
        torch.export.save(torch.export.export(module, (x,)), self.folder / "model.pt2")
        save_file({"x": x}, self.folder / "in.safetensors")
        start = time.perf_counter()
        coil(
            "compile",
            self.folder / "model.pt2",
            "-o",
            self.folder / "model.coil",
            "--device",
            "cuda",
            "--threads",
            os.cpu_count(),
            *(f"--set={k}={v}" for k, v in sides.OPTIONS.items()),
        )
        self.seconds = time.perf_counter() - start

    def result(self):
        from safetensors.torch import load_file

        coil(
            "run",
            self.folder / "model.coil",
            "--inputs",
            self.folder / "in.safetensors",
            "--outputs",
            self.folder / "out.safetensors",
        )
        return load_file(self.folder / "out.safetensors")["output"]

    def milliseconds(self, graphs):
        coil(
            "bench",
            self.folder / "model.coil",
            "--inputs",
            self.folder / "in.safetensors",
            "--set",
            f"cuda.graphs={graphs}",
            "--seconds",
            1,
            "--json",
            self.folder / "bench.json",
        )
        return json.loads((self.folder / "bench.json").read_text())["latency_ms"]["median"]


def measure(name, chosen, deadline):
    module, x = MODELS[name]()
    with tempfile.TemporaryDirectory() as folder:
        package = Package(module, x, folder) if any(s.startswith("package") for s in chosen) else None
        module, x = module.cuda(), x.cuda()
        want = module(x)
        print(f"{name}\n  eager            {sides.by_clock(lambda: module(x)):8.3f} ms", flush=True)
        for side in chosen:
            if deadline.passed():
                print(f"  {side:16s} not reached in time")
                continue
            try:
                if side.startswith("package"):
                    ms, cold, got = (
                        package.milliseconds("true" if side.endswith("graphs") else "false"),
                        package.seconds,
                        package.result().cuda(),
                    )
                else:
                    compiled = sides.compiled(module, *COMPILED[side])
                    call = lambda: compiled(x)
                    cold = sides.first_call(call)
                    got = call().clone()
                    ms = sides.by_clock(call)
                print(
                    f"  {side:16s} {ms:8.3f} ms   cold {cold:6.2f} s   distance {sides.difference(got, want):.1e}",
                    flush=True,
                )
            except Exception as error:
                print(f"  {side:16s} {sides.line(error)}", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def main():
    a = sides.parser(__doc__, "package,package graphs,coil,coil graphs,inductor,inductor graphs").parse_args()
    with torch.no_grad():
        for name, deadline in sides.each(a, MODELS):
            measure(name, a.sides.split(","), deadline)


if __name__ == "__main__":
    main()
