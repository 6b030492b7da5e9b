"""Context-free grammars, matched by llguidance: `library` holds them.

Users' grammars come in Lark's notation (`lark_notation`) or in GBNF (`gbnf`). Recursive syntax
trees are made `normal` and written as `lark`; `network` and `lexemes` prove that the library's
greedy lexer loses nothing.
"""
