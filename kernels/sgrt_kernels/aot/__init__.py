"""Compiles kernels for GPUs that are not there, and reads what the compiled code would cost."""
