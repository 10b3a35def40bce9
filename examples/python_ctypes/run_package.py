#!/usr/bin/env python3
"""Runs a package from Python with nothing but the standard library:  run_package.py LIBRARY MODEL.coil IN.safetensors
OUT.safetensors

LIBRARY is libcoil_runtime.so (build/lib/libcoil_runtime.so). Neither PyTorch nor NumPy is needed; what they hold could
be lent to a run
the same way, by the address of their data.
"""

import ctypes as c
import sys

MAX_RANK = 16  # COIL_MAX_RANK


class Tensor(c.Structure):  # coil_tensor
    _fields_ = [
        ("data", c.c_void_p),
        ("dtype", c.c_int),
        ("rank", c.c_int16),
        ("on_device", c.c_int16),
        ("sizes", c.c_int64 * MAX_RANK),
        ("strides", c.c_int64 * MAX_RANK),
        ("owner", c.c_void_p),
    ]


class Port(c.Structure):  # coil_port
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int), ("rank", c.c_int32), ("mutated", c.c_int32)]


def load_library(path):
    coil = c.CDLL(path)
    handle, text, size, ports = c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(Port)
    signatures = {
        "coil_last_error": (text, []),
        "coil_model_load": (handle, [text]),
        "coil_model_free": (None, [handle]),
        "coil_model_inputs": (ports, [handle, c.POINTER(size)]),
        "coil_model_outputs": (ports, [handle, c.POINTER(size)]),
        "coil_context_create": (handle, [handle]),
        "coil_context_free": (None, [handle]),
        "coil_context_run": (c.c_int, [handle, c.POINTER(Tensor), size, c.POINTER(Tensor), size]),
        "coil_tensor_release": (None, [c.POINTER(Tensor)]),
        "coil_file_open": (handle, [text]),
        "coil_file_close": (None, [handle]),
        "coil_file_find": (c.c_int, [handle, text, c.POINTER(Tensor)]),
        "coil_file_write": (c.c_int, [text, c.POINTER(text), c.POINTER(Tensor), size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(coil, name)
        function.restype, function.argtypes = result, arguments
    return coil


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    coil = load_library(sys.argv[1])
    package, given, results = (a.encode() for a in sys.argv[2:])

    def check(good):
        if not good:
            sys.exit("error: " + coil.coil_last_error().decode())
        return good

    model = check(coil.coil_model_load(package))
    file = check(coil.coil_file_open(given))
    context = check(coil.coil_context_create(model))
    count = c.c_size_t()
    ports = coil.coil_model_inputs(model, c.byref(count))
    inputs = (Tensor * max(count.value, 1))()
    for i in range(count.value):  # by name; lent to the run
        check(coil.coil_file_find(file, ports[i].name, c.byref(inputs[i])) == 0)
    input_count = count.value
    ports = coil.coil_model_outputs(model, c.byref(count))
    outputs = (Tensor * max(count.value, 1))()
    check(coil.coil_context_run(context, inputs, input_count, outputs, count.value) == 0)

    names = (c.c_char_p * max(count.value, 1))(*[ports[i].name for i in range(count.value)])
    check(coil.coil_file_write(results, names, outputs, count.value) == 0)
    for i in range(count.value):
        print(ports[i].name.decode(), list(outputs[i].sizes[: outputs[i].rank]))
        coil.coil_tensor_release(c.byref(outputs[i]))
    coil.coil_context_free(context)
    coil.coil_file_close(file)
    coil.coil_model_free(model)


if __name__ == "__main__":
    main()
