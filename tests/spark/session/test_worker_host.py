"""The process that forks a session's Python processes: what a fork runs, and behavior without the host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.spark.session.worker_start import ADDRESS_VARIABLE, launch_script, worker_host

SAY_ALL = """
import os, sys
print(sys.argv[1:], os.environ["COLOUR"], os.getcwd(), sys.stdin.read(), __name__)
print(os.getppid(), file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def host():
    made = worker_host.__wrapped__("1")
    yield made
    made.process.stdin.close()
    made.process.wait(timeout=60)
    assert not Path(made.address).parent.exists(), "a host leaves nothing behind"


def launched(address: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "say_all.py").write_text(SAY_ALL)
    script = folder / "python"
    script.write_text(launch_script())
    script.chmod(0o700)
    environment = {**os.environ, ADDRESS_VARIABLE: address, "COLOUR": "blue", "PYTHONPATH": str(folder)}
    return subprocess.run(
        [script, *words],
        env=environment,
        cwd=folder,
        input="in",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_fork_runs_a_module_as_python_would(host, tmp_path: Path):
    done = launched(host.address, tmp_path, "-m", "say_all", "a", "b c")
    assert done.stdout == f"['a', 'b c'] blue {tmp_path} in __main__\n"
    assert done.stderr == f"{host.process.pid}\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("-m", "say_all", "a"), ("say_all.py", "a")])
def test_without_a_host_and_for_anything_but_a_module_the_program_becomes_python(host, tmp_path: Path, words):
    address = host.address if words[0] != "-m" else str(tmp_path / "nobody")
    done = launched(address, tmp_path, *words)
    assert done.stdout == f"['a'] blue {tmp_path} in __main__\n"
    assert done.stderr == f"{os.getpid()}\n"
    assert done.returncode == 3


def test_calls_that_break_off_harm_nobody(host, tmp_path: Path):
    for said in (b"", b"\0", b'\0{"words": ', b"\0[]", b'\0{"strange": 1}'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.connect(host.address)
            caller.sendall(said)
            caller.shutdown(socket.SHUT_WR)
            caller.settimeout(60)
            with suppress(ConnectionResetError):
                assert caller.recv(1) == b""
    assert launched(host.address, tmp_path, "-m", "say_all").stdout


@pytest.mark.slow
@pytest.mark.parametrize("is_ready", [False, True], ids=["while it starts", "once it serves"])
def test_signals_to_all_processes_leave_the_host_to_its_driver(host, tmp_path: Path, is_ready: bool):
    if is_ready:
        launched(host.address, tmp_path, "-m", "say_all")
    for number in (signal.SIGINT, signal.SIGTERM):
        host.process.send_signal(number)
    assert launched(host.address, tmp_path, "-m", "say_all").stderr == f"{host.process.pid}\n"


def test_a_child_of_a_fork_can_be_waited_for(host, tmp_path: Path):
    (tmp_path / "parent.py").write_text("import subprocess\nprint(subprocess.run(['sh', '-c', 'exit 5']).returncode)\n")
    assert launched(host.address, tmp_path, "-m", "parent").stdout == "5\n"


def test_the_workers_of_a_session_are_forks_of_its_host(spark):
    def ancestor(_: int) -> tuple[int, str]:
        daemon = os.getppid()
        return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]), sys.executable

    host = worker_host("1")
    assert spark.sparkContext.parallelize([0], 1).map(ancestor).collect() == [(host.process.pid, sys.executable)]
