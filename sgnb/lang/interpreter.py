"""SGLang's path of a program's state and of a fork's group."""

from .core.fork_group import ForkGroup
from .core.state import ProgramState

ProgramStateGroup = ForkGroup

__all__ = ["ProgramState", "ProgramStateGroup"]
