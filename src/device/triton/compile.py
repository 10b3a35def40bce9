"""Compiles kernels with Triton, for a compiler that has no Python of its own: `python compile.py GIVEN MADE`.

GIVEN is JSON: `capability` (90), and for each of `kernels` its symbol, source text, the types of its parameters in
order (`constexpr` for constants), constants, options. MADE becomes what each is compiled to, or how it failed.
"""

# @piece compile
import importlib.util
import json
import pathlib
import re
import sys
import traceback


def widths(ptx, symbol):
    """Bytes of each parameter of the entry point, from its head."""
    head = ptx[ptx.index(f".entry {symbol}(") :]
    head = head[: head.index(")")]
    return [int(bits) // 8 for bits in re.findall(r"\.param \.(?:align \d+ )?\.?[a-z](\d+)[^,\n)]*_param_\d+", head)]


def compiled(kernel, capability, folder):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    symbol = kernel["symbol"]
    file = folder / f"{symbol}.py"
    file.write_text(kernel["source"])
    spec = importlib.util.spec_from_file_location(symbol, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    types = dict(kernel["types"])
    attributes = {(k,): [["tt.divisibility", 16]] for k, t in enumerate(types.values()) if t.startswith("*")}
    source = ASTSource(getattr(module, symbol), types, kernel["constants"], attributes)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=kernel["options"])
    m = made.metadata
    if getattr(m, "global_scratch_size", 0) or getattr(m, "profile_scratch_size", 0):
        raise RuntimeError("it needs scratch memory, which is not supported")
    given = sum(t != "constexpr" for t in types.values())
    return {
        "arch": f"sm_{capability}",
        "binary": made.asm["cubin"].hex(),
        "ptx": made.asm["ptx"],
        "block": m.num_warps * 32,
        "shared_bytes": m.shared,
        "scratch": widths(made.asm["ptx"], symbol)[given:],
    }


def main(given, made):
    given, made = pathlib.Path(given), pathlib.Path(made)
    asked, out = json.loads(given.read_text()), {}
    for kernel in asked["kernels"]:
        try:
            out[kernel["symbol"]] = compiled(kernel, asked["capability"], given.parent)
        except Exception as error:
            last = error
            while last.__cause__ is not None:
                last = last.__cause__
            text = str(getattr(last, "error_message", None) or last).strip() or type(last).__name__
            out[kernel["symbol"]] = {"error": text.splitlines()[-1], "trace": traceback.format_exc()}
    made.write_text(json.dumps(out))


main(*sys.argv[1:])
