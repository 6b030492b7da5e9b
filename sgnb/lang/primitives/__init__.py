"""Primitives of the language, and functions built from primitives and states. Arguments are checked
at the line of the call."""
