"""The other sides: eager, Inductor, Inductor with freezing, ONNX Runtime, OpenVINO; and Coil's through torch.compile,
which is made as Inductor's is. Each makes a call of a module on its inputs.
"""

import pathlib
import time

import torch

SIDES = ("eager", "inductor", "inductor frozen", "onnxruntime", "openvino")
THROUGH_TORCH = "coil torch.compile"


def _compiled(backend, freezing):
    import torch._inductor.config as config

    def make(module, args, folder, threads):
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=backend, fullgraph=True)
        with config.patch(freezing=freezing, fx_graph_cache=False), torch.no_grad():
            compiled(*args)
        return lambda: compiled(*args)

    return make


def _frozen(graph, inputs):
    """A backend of its own, so that Dynamo keeps it apart from plain Inductor."""
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, inputs)


def _onnx(module, args, folder):
    path = pathlib.Path(folder) / "model.onnx"
    if not path.exists():
        torch.onnx.export(module, args, path, dynamo=True, verbose=False)
    return path


def _onnxruntime(module, args, folder, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(_onnx(module, args, folder), options, providers=["CPUExecutionProvider"])
    feed = {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)}
    return lambda: session.run(None, feed)


def _openvino(module, args, folder, threads):
    import openvino

    request = openvino.compile_model(
        _onnx(module, args, folder), "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    ).create_infer_request()
    arrays = [a.numpy() for a in args]
    return lambda: request.infer(arrays, share_inputs=True, share_outputs=True)


_MAKE = {
    "eager": lambda module, args, folder, threads: lambda: module(*args),
    "inductor": _compiled("inductor", False),
    "inductor frozen": _compiled(_frozen, True),
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    THROUGH_TORCH: _compiled("coil", False),
}


def make(side, module, args, folder, threads):
    """(call, seconds to make it). The ONNX file is made before the clock starts."""
    if side in ("onnxruntime", "openvino"):
        _onnx(module, args, folder)
    start = time.perf_counter()
    call = _MAKE[side](module, args, folder, threads)
    return call, time.perf_counter() - start
