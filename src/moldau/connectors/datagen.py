"""The data generator."""
