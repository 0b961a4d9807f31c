"""Connections to other nodes.

logins: the logins of this node at other nodes
outages: logs nodes that cannot be reached
peer: one other node: its connection, opened again when it ends
"""
