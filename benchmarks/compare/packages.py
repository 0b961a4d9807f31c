"""Fetches the servers as Debian packages into a folder outside the repository, without installing them.

`apt-get` resolves and downloads the packages and `dpkg-deb` unpacks them, so no root rights are needed, no system
service starts, and what the machine has installed stays as it is.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from benchmarks.peers import PeerError

SERVERS = ("rabbitmq-server", "redis-server", "nats-server")
DEADLINE_S = 300
_URI = re.compile(r"^'[^']+' ([^_ ]+)_", re.MULTILINE)


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or "").strip()
        raise PeerError(f"{' '.join(command[:3])} failed ({said or error}); apt-get update may help") from error
    return done.stdout


def fetch(cache: Path, servers: tuple[str, ...] = SERVERS) -> Path:
    """The folder with the unpacked packages of `servers` and of what they need, fetched once.

    Raises PeerError where there is no apt-get, or where it does not find a package.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PeerError("the servers come as Debian packages: apt-get and dpkg-deb are needed")
    tree = cache / f"debian-{hashlib.sha256(' '.join(servers).encode()).hexdigest()[:8]}"
    if (tree / "complete").exists():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    downloads = tree / "downloads"
    downloads.mkdir(parents=True)
    resolve = ["apt-get", "install", "--print-uris", "--yes", "--no-install-recommends", "-o", "Debug::NoLocking=1"]
    needed = sorted({*_URI.findall(_run([*resolve, *servers], downloads)), *servers})
    _run(["apt-get", "download", *needed], downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(tree)], downloads)
    shutil.rmtree(downloads)
    _move_erlang(tree)
    (tree / "complete").touch()
    return tree


def _move_erlang(tree: Path) -> None:
    """Erlang's start script names the folder of its installation."""
    for script in (tree / "usr/lib/erlang").glob("**/bin/erl"):
        if script.is_file() and not script.is_symlink():
            moved = script.read_text().replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={tree}/usr/lib/erlang")
            script.write_text(moved)


def version_of(tree: Path, server: str) -> str:
    """The version that the server itself reports."""
    if server == "rabbitmq-server":
        return next((tree / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")).name.partition("-")[2]
    libraries = ":".join(str(folder) for folder in tree.glob("usr/lib/*-linux-gnu"))
    binary = tree / ("usr/bin" if server == "redis-server" else "usr/sbin") / server
    command = ["env", f"LD_LIBRARY_PATH={libraries}", str(binary), "--version"]
    found = re.search(r"\d+\.\d+\.\d+", _run(command, tree))
    return found[0] if found else "unknown"
