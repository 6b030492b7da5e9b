"""Context-free grammars, matched by llguidance; `cfg_matcher` has the matchers.

Schemas and patterns arrive as trees of `Lexeme`s; `lexeme_lark` writes a terminal per lexeme.
Users' grammars arrive in Lark notation (`lark_notation`) or in GBNF (`gbnf`). GBNF has no lexemes:
trees are brought to a `normal` form and written as `lark`; `network` and `lexemes` prove that the
library's greedy lexer loses no text.
"""
