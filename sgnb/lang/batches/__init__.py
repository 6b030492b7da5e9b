"""Batches: a program run for each row of a table, with optional storage of finished rows in a
file."""
