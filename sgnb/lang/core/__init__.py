"""Execution of programs: ops, branches, states and runs. Handles nodes of `ir`, independent of the
primitives that create the nodes."""
