"""Makes the model that ships in the package: facts and templates, tokenizer, training, evaluation.

Everything the shipped weights were made from is in this folder. Nothing here is imported by the package.
"""
