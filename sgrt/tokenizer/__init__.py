"""Text to tokens and back, and chats to tokens by the model's own template."""
