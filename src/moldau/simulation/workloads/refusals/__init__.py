"""Requests that must be refused, or answered with what is known beforehand: one module for each family of them."""
