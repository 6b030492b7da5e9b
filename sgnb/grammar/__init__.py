"""What a text may be: regexes, JSON schemas and grammars, compiled to automata over bytes and
matched token by token.

Knows no model, no engine and no torch. `spec` says what is wanted, `compiler` makes it, `matcher`
follows one request. Import the submodules: this package loads nothing by itself.
"""
