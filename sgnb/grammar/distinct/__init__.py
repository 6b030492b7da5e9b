"""Distinct items of arrays with `uniqueItems`, and distinct names of objects.

The grammar of a schema describes the texts without this condition. A `DistinctMatcher` follows the
text next to the grammar's matcher and removes tokens from the masks. `json_memory` keeps earlier
items and names, `places` finds the arrays with distinct items, `distinct_tokens` finds the tokens
to check, `liveness` proves a continuation. `schema/item_counts` refuses schemas without enough
items. Schemas without distinct arrays and open objects have no `DistinctMatcher`.
"""
