"""`moldau up --brokers N`: a cluster of several nodes on this machine, each a process, from one directory."""
