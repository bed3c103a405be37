"""Parts of `benchmarks/cpu.py`."""
