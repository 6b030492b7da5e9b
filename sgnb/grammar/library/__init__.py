"""Grammars that no automaton can follow, through llguidance: `library` holds them and matches.

Users' grammars come in Lark's notation (`lark_notation`) or in GBNF (`gbnf`). Syntax trees with
recursion are made `normal` and written as `lark`; `network` and `lexemes` prove that the library's
lexer loses nothing by being greedy.
"""
