"""Agent programs of known shapes over generated data."""
