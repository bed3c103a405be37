"""The CPU kernels in C++, and the Python that builds, loads and calls them. Free of torch."""
