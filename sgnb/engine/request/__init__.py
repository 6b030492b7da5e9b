"""One request: its tokens, text and grammar, and the step's batch of them. Knows no scheduler and
no model."""
