"""JSON Schema as a syntax tree of the valid texts: `translate` is the entry.

`keywords` is the table of what is accepted, `index` resolves references, `reader` reads keywords
into `flat` records, `cases` resolves allOf, anyOf, oneOf, not and if; `objects`, `arrays`,
`strings`, `numbers` make the tree of each type.
"""
