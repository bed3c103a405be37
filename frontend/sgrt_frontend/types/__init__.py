"""Python types as shapes of generated text: JSON Schemas on the way out, values on the way back."""
