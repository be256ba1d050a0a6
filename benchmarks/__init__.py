"""Benchmarks: each compares two ways to do the same work, as a ratio within one run."""
