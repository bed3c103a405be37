"""Plans: the calls of a program and the tokens they share, found without a model."""
