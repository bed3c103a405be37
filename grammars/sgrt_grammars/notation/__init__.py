"""Context-free grammars in the notations of Lark, GBNF and EBNF."""
