"""Replaces Python where Spark starts workers: forwards the call to the worker host.

Run as `python -IS worker_launch.py PYTHON ARGUMENT...`. Takes 15 ms, because it imports only Python's built-in modules,
nothing of Moldau. Without a host it becomes PYTHON.
"""

import json
import os
import socket
import sys


def main() -> None:
    python, *arguments = sys.argv[1:]
    if arguments[:1] != ["-m"] or not _ran_elsewhere(arguments[1:]):
        os.execv(python, [python, *arguments])


def _ran_elsewhere(words: list[str]) -> bool:
    """Whether the host ran module `words[0]`. Returns when the module has ended, or when another process runs it."""
    request = {"words": words, "environment": dict(os.environ), "directory": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as host:
        try:
            host.connect(os.environ["MOLDAU_WORKER_HOST"])
            socket.send_fds(host, [b"\0"], [0, 1, 2])
            host.sendall(json.dumps(request).encode())
            host.shutdown(socket.SHUT_WR)
            answer = host.recv(1)
            if answer != b"\0":
                return answer == b"\1"  # the process of the streaming sources answers for this one
        except (KeyError, OSError):
            return False
        # Spark sees the end of a stream only when no process holds it open.
        for descriptor in range(3):
            os.close(descriptor)
        host.recv(1)
        return True


if __name__ == "__main__":
    main()
