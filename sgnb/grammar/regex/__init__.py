"""Parser for Python's `re` syntax.

`parser` has `parse`; `pattern_reader` reads tokens; `classes`, `characters` and `properties`
compute character sets; `anchors` resolves `^` and `$`.
"""
