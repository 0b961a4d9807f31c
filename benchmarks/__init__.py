"""Workloads that compare Moldau with its peers, interleaved, in one run: `make bench`."""
