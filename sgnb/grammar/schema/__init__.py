"""JSON Schema to a syntax tree of the valid texts; `translate` is the entry point, `validate`
checks texts.

`keywords` lists the supported keywords, `index` resolves references, `keyword_reader` fills `flat`
records. `disjuncts` resolves allOf, anyOf, oneOf, not and if; `negation` negates keywords.
`objects`, `arrays`, `strings` and `numbers` build the tree of each type.
"""
