"""The prefix cache: page allocator, radix tree over token runs, and the pool of keys and values."""
