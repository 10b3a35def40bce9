"""One run of an ONNX file in a process without torch, to be measured from outside: onnx_once.py MODEL.onnx X.npy"""

import sys

import numpy
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {session.get_inputs()[0].name: numpy.load(sys.argv[2])})
