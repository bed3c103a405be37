"""Request bodies as they arrive on the wire, validated by pydantic."""
