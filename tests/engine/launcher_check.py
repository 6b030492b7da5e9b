"""Loads what triton builds for launches in several threads at a time. Run as a program: it changes
triton.

The functions of the modules, which all have one name, tell which module they are of.
"""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from sgnb.engine.device.precompile import _load_launchers_alone

MODULES, THREADS, TIMES = 8, 8, 200

SOURCE = """
#include <Python.h>
static PyObject *launch(PyObject *self, PyObject *args) { return PyLong_FromLong(%d); }
static PyMethodDef methods[] = {{"launch", launch, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "__triton_launcher", NULL, -1, methods};
PyMODINIT_FUNC PyInit___triton_launcher(void) { return PyModule_Create(&module); }
"""


def launched(number: int) -> int:
    from triton.runtime import build

    result: int = build.compile_module_from_src(SOURCE % number, "__triton_launcher").launch()
    return result


def right(first: int) -> int:
    """How often a module was the one that was asked for."""
    asked = [(first + i) % MODULES for i in range(TIMES)]
    return sum(launched(number) == number for number in asked)


if __name__ == "__main__":
    sys.setswitchinterval(1e-4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        assert [launched(number) for number in range(MODULES)] == list(range(MODULES))
        _load_launchers_alone()
        with ThreadPoolExecutor(THREADS) as pool:
            print(sum(pool.map(right, range(THREADS))), "right")
