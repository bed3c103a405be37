"""A running server as the backend of programs, and how calls look on the wire."""
