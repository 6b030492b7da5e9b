"""SGLang's path of the protocol of backends."""

from ..executor import Executor

BaseBackend = Executor
