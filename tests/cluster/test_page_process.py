"""The page's process, as the child of a broker: how it ends."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest


def start(*arguments: str) -> subprocess.Popen[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = str(listening.fileno())
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "moldau.products.console",
                "--fd",
                descriptor,
                "--bootstrap",
                "127.0.0.1:1",
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(listening.fileno(),),
        )


@pytest.mark.parametrize("is_idle", [True, False])
def test_it_ends_in_silence_when_it_is_idle_and_with_its_parent(is_idle: bool) -> None:
    # idle: its standard input stays open, and a thread reads it, while Python ends
    with start("--idle-exit", "0.1") if is_idle else start() as child:
        assert child.stdin is not None
        assert child.stderr is not None
        if not is_idle:
            child.stdin.close()
        assert child.wait(60) == 0
        assert child.stderr.read() == ""
