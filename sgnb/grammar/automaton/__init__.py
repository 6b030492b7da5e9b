"""From a syntax tree to a minimal automaton over bytes, and to its compressed form.

`sizes` counts before anything is built; `expand` writes the tree as an `nfa` (characters as bytes:
`utf8`; intersections: `product`); `determinise` and `minimise` make the `dfa`; `automaton` is what
requests share, `compressed` what it forces, and `limits` how large any of it may become.
"""
