"""Runs the commands of README's section "A broker" with an installed package: `python first_screen.py README VENV`.

The commands see no clone, an empty home folder, an environment of PATH and HOME, and no network but the loopback of a
namespace (`unshare --map-root-user --net`). Only the standard library is used, so any Python runs it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

READY_S = 60.0
COMMAND_S = 60.0
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def blocks_of(readme: str) -> list[list[str]]:
    """The commands of each `sh` block of the section, without comments."""
    section = readme.split("## A broker\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [[line.split("  #")[0].strip() for line in block.splitlines() if line.strip()] for block in blocks]


def run(blocks: list[list[str]], venv: Path, folder: Path) -> None:
    """The first block starts the broker, the others use it. Raises SystemExit where a command fails."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    environment = {"HOME": str(home), "PATH": f"{venv / 'bin'}:/usr/bin:/bin"}
    (start,), *others = blocks
    with (folder / "broker.txt").open("w+b") as printed:
        broker = subprocess.Popen(start.split(), cwd=work, env=environment, stdout=printed, stderr=subprocess.STDOUT)
        try:
            _await_port(broker, Path(printed.name))
            output = "".join(_output(command, work, environment) for block in others for command in block)
        finally:
            broker.terminate()
            broker.wait(30)
    if "hello" not in output or "readers" not in output:
        raise SystemExit(f"neither the record nor the group was shown:\n{output}")
    left = sorted(path.name for path in home.iterdir())
    if left:
        raise SystemExit(f"the commands left {left} in the home folder")


def _await_port(broker: subprocess.Popen[bytes], printed: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", 9092)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"the broker did not start:\n{printed.read_text(errors='replace')}")


def _output(command: str, work: Path, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        ["bash", "-c", command], cwd=work, env=environment, capture_output=True, text=True, timeout=COMMAND_S
    )
    if ended.returncode != 0:
        raise SystemExit(f"{command}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main() -> None:
    readme, venv = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if sys.argv[3:] != ["apart"]:
        apart = ["unshare", "--map-root-user", "--net"]
        if not shutil.which("unshare") or subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
            print("README's section 'A broker' was not run: this machine allows no network namespace")
            return
        os.execvp("unshare", [*apart, sys.executable, __file__, str(readme), str(venv), "apart"])
    _bring_loopback_up()
    with tempfile.TemporaryDirectory() as folder:
        run(blocks_of(readme.read_text(encoding="utf-8")), venv, Path(folder))
    print("README's section 'A broker' works")


if __name__ == "__main__":
    main()
