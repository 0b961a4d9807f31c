"""The operating system: real implementations of the ports.

allocator: memory that the C library keeps or frees
clock: real clocks
descriptors: file descriptors for files and connections
disk: the real file system
dry_run: a disk that is read but never changed
forwarded_reads: base of disks in front of another disk
host_name: the canonical name of this machine
process_stats: figures of the process and its disk, for metrics
random: the kernel's randomness
residency: parts of a file that are in the page cache
rotated_file: an appended file, rotated by size
simulated/: simulated implementations of the ports
workers: threads for work that releases the GIL
"""
