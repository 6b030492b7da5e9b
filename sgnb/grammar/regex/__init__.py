"""Python's `re` syntax as a syntax tree: `parser` (`parse`), with `reader` for its words, `classes`
for sets of characters, `anchors` for `^` and `$`; `characters` holds what Unicode says."""
