"""SGLang's path of a program's state and of a fork's group."""

from .core.state import ForkGroup, ProgramState

ProgramStateGroup = ForkGroup

__all__ = ["ProgramState", "ProgramStateGroup"]
