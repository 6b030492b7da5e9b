"""Import of `torchvision_functions` under the names of torchvision's modules, if torchvision is not
installed.

transformers asks once if torchvision is installed: import this module before transformers. Tests
process both sides of a comparison with the same processor, so the functions need not produce
torchvision's exact pixels.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "torchvision"
MODULES = (
    PACKAGE, f"{PACKAGE}.io", f"{PACKAGE}.transforms", f"{PACKAGE}.transforms.functional",
    f"{PACKAGE}.transforms.v2", f"{PACKAGE}.transforms.v2.functional",
)  # fmt: skip


class StandIn(MetaPathFinder, Loader):
    """Finder and loader of the modules. The functions, and torch, are imported on first use."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_known = fullname in MODULES
        return ModuleSpec(fullname, self, is_package=True) if is_known else None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__version__"] = "0.0"
        if ".transforms" in module.__name__:
            from .torchvision_functions import FUNCTIONS

            module.__dict__.update(FUNCTIONS)


if importlib.util.find_spec(PACKAGE) is None:
    sys.meta_path.append(StandIn())
