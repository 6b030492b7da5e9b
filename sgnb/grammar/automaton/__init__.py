"""From a syntax tree to a minimal automaton over bytes, and to the compressed FSM.

`sizes` estimates the size before the build; `expand` writes the tree as an `nfa` (`utf8`:
characters as bytes; `product`: intersections; `common_lexemes`:
cached automata of numbers and strings); `determinise` and `minimise` produce the `dfa`.
Requests share the `automaton`; `compressed` holds the forced bytes; `limits` bounds the build.
"""
