"""The engine: scheduler, sequences, runner, sampler, output and the loop that joins them."""
