"""Context-free grammars, matched by llguidance: `library` holds them.

Schemas and patterns come as trees of `Lexeme`s, which `lexeme_lark` writes terminal by terminal.
Users' grammars come in Lark's notation (`lark_notation`) or in GBNF (`gbnf`), whose trees have no
lexemes: they are made `normal` and written as `lark`; `network` and `lexemes` prove that the
library's greedy lexer loses nothing.
"""
