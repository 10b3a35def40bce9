"""What every program written as Python begins with."""

# ruff: noqa: F401

# @piece imports
import builtins
import concurrent.futures
import contextlib
import ctypes
import ctypes.util
import hashlib
import itertools
import json
import math
import mmap
import operator
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types

import torch

HERE = pathlib.Path(__file__).resolve().parent
