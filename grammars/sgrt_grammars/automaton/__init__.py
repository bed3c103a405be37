"""The automaton of one vocabulary: hash-consed expression nodes, derivatives, completions and masks."""
