"""What a client decides, without sockets and without clocks."""
