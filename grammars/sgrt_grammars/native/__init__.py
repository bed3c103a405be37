"""The native automaton: C++ sources, and the bindings that make them a `Core`."""
