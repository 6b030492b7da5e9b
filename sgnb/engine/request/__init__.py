"""Requests: tokens, text, grammar, and the batch of a step. Independent of scheduler and model."""
