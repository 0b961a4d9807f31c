"""Whole nodes as one cluster: several machines, each with the broker and the controller that people run.

Everything between the sockets and the files is the product; only the ports are simulated. Nodes fail, and clients
write, read and copy meanwhile; then all is healed, and the cluster must do what it promised.
"""
