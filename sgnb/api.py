"""SGLang's older path of the language's functions: `sgnb.api.gen` is `sgnb.gen`."""

from .lang.api import __getattr__ as __getattr__
