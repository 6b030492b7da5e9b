"""SGLang's other path of the function that starts a server."""

from ..utils import launch_server_cmd

__all__ = ["launch_server_cmd"]
