"""The log directories of a broker, and partitions that move between them.

directories: log directories, moves, strays
directory: one log directory
duplicates: a partition in two log directories after a crash
health: failed directories and reported damage
moving: a copy that catches up in another directory (KIP-113)
room: full directories, and the spare file
strays: directories of partitions that this broker does not have
"""
