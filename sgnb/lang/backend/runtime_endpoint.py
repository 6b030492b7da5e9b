"""SGLang's path of `Runtime` and `RuntimeEndpoint`."""

from ... import Runtime, RuntimeEndpoint

__all__ = ["Runtime", "RuntimeEndpoint"]
