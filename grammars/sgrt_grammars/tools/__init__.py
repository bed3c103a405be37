"""Tool-call and reasoning formats: one declarative description each, from which come trigger, grammar and parser."""
