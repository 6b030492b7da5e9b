"""Python's `re` syntax as a syntax tree: `parser` (`parse`), with `reader` for tokens, `classes`
and `characters` for character sets, `anchors` for `^` and `$`."""
