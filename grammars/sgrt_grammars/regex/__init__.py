"""Regular expressions (Python's `re` and ECMA-262) as languages of characters, and their spelling in bytes."""
