"""Model files: where they are found, how they are fetched, read and checked."""
