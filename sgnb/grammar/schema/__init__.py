"""JSON Schema as a syntax tree of the texts that are valid: `translate` begins.

`keywords` is the one table of what is accepted, `index` finds references, `reader` reads keywords
into `flat` records, `cases` takes allOf, anyOf, oneOf, not and if apart; `objects`, `arrays`,
`strings`, `numbers` write each type.
"""
