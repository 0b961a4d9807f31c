"""Loaders: each runs one workload against one peer and gives the figures."""
