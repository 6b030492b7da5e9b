"""A program as a graph: traced once with placeholders for its arguments, printed, saved, and run
without its code. Knows no engine."""
