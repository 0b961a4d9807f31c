"""Workloads run against Moldau and its peers, interleaved, in one run: `make bench`."""
