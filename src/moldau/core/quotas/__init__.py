"""Quotas of clients, and limits of connections.

connections: limits and rates of connections (KIP-402, 612)
limits: which quota applies to a client (KIP-13, 55, 546)
rates: moving windows and token buckets (KIP-13, 599)
usage: the use of each client, and its throttle time
"""
