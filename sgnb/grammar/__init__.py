"""Constrained decoding: regexes, JSON schemas and grammars, compiled to byte automata and matched
per token.

Knows no model, no engine and no torch. `spec` describes a constraint, `compiler` compiles the spec,
`matcher` tracks a request. Import the submodules: the package itself loads nothing.
"""
