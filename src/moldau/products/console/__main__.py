"""`python -m moldau.products.console --fd N --access NAME=VALUE ...`: the web console as a child of a broker."""

from __future__ import annotations

import argparse
import socket

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.service import Console
from moldau.products.service.logins.opened import Opening


def main() -> None:
    parser = argparse.ArgumentParser(prog="moldau console")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket that was inherited")
    parser.add_argument(
        "--access", nargs="+", required=True, help="NAME=VALUE, of Kafka's clients; secrets as references"
    )
    parser.add_argument("--registry")
    parser.add_argument("--idle-exit", type=float, default=0)
    arguments = parser.parse_args()
    listening = socket.socket(fileno=arguments.fd)
    access = ClusterAccess.from_properties(dict(text.split("=", 1) for text in arguments.access))
    console = Console(access, Opening(), registry=arguments.registry)
    console.serve(listening, is_child=True, idle_exit_s=arguments.idle_exit)


if __name__ == "__main__":
    main()
