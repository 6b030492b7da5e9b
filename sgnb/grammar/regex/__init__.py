"""Parser for Python's `re` syntax.

`parser` has `parse`; `reader` reads tokens, `classes` and `characters` compute character sets,
`anchors` resolves `^` and `$`.
"""
