"""The arithmetic of the CPU kernels in plain torch, bit for bit: what runs without a compiler, and their oracle."""
