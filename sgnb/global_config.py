"""SGLang's path of `global_config`. Importing the module gives the settings themselves: the package
has them under the same name."""

import sys
from typing import Any

from .lang.primitives.config import global_config

modules: dict[str, Any] = sys.modules
modules[__name__] = global_config
