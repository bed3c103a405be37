"""Models: what a checkpoint computes, one module per architecture, on torch or on the CPU kernels."""
