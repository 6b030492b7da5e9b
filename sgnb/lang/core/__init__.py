"""A program as it runs: its ops, its branches and what they hold, its states. Knows the nodes of
`ir`, and no words that make them."""
