"""How a program of ours reaches others, and is reached: sockets for clients that block their thread and for loops, TLS,
an HTTP endpoint, and metrics as text. The broker shares this floor, and nothing else of its shell, with what stands
above it.
"""
