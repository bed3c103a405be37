"""One folder per operation: the reference, the Triton kernel, and native code where it pays."""
