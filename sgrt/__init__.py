"""sgrt: a structured-generation and agent runtime."""
