"""lit: each test is a program as text (a graph, loops, or wrapper lines), run through `coil opt`, with what
must come out beside it.
"""

import os
import shutil

import lit.formats

config.name = "coil"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".fx", ".loop", ".wrap"]
config.test_source_root = os.path.dirname(__file__)
build = os.environ.get("COIL_BUILD", os.path.join(config.test_source_root, "..", "..", "build"))
config.test_exec_root = os.path.join(build, "lit")
config.environment["PATH"] = os.path.join(os.path.abspath(build), "bin") + os.pathsep + os.environ["PATH"]
filecheck = next((f for f in ("FileCheck-19", "FileCheck") if shutil.which(f)), None)
if filecheck is None:
    lit_config.fatal("FileCheck is not there: install llvm-19-tools")
config.substitutions.append(("FileCheck", filecheck))
