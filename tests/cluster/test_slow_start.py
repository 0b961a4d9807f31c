"""A program that does not serve in time."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.support.running_broker import RunningBroker


def test_a_program_that_does_not_serve_in_time_is_ended() -> None:
    """The caller has no process yet that it could end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        program = RunningBroker("t", "-b", f"127.0.0.1:{silent.getsockname()[1]}", command="consume")
        with pytest.raises(AssertionError):
            program.wait_until_ready(0.1)
    assert program.process.returncode == -signal.SIGKILL
