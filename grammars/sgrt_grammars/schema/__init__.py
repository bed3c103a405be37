"""JSON Schema: from a schema document to shapes of values, and from shapes to expressions."""
