"""The generators, one module for each group of skills. Each takes a Random and gives an Item or a Passage."""
