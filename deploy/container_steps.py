"""Runs the steps of deploy/Containerfile where no builder is: in copies of a bare Debian tree, with chroot, as root.

    debootstrap --variant=minbase bookworm /tmp/tree
    python deploy/container_steps.py /tmp/tree /tmp/scratch

The tree stands for the base image. Afterwards /tmp/scratch/1 is the image's file system; the entry point is started in
it as the image's user, the health check is asked until it agrees, and a SIGTERM ends the broker with exit code 0. There
are no namespaces: the ports are this machine's own.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BORROWED = {"etc/resolv.conf": "etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt": "var/host-certificates.crt"}
"""Files of this machine, and where a step finds them: how names are looked up, and whom a download may trust."""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PIP_CERT": "/var/host-certificates.crt"}
HEALTHY_WITHIN_S = 60


def steps_of(text: str) -> list[tuple[str, str]]:
    """(instruction, rest) in their order, without comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def run(tree: Path, command: list[str], user: str = "") -> None:
    subprocess.run(
        ["chroot", *([f"--userspec={user}:{user}"] if user else []), tree, *command], check=True, env=ENVIRONMENT
    )


def borrow(tree: Path) -> None:
    for source, target in BORROWED.items():
        if Path("/", source).exists():
            shutil.copyfile(Path("/", source), tree / target)


def copy(rest: str, tree: Path, stages: dict[str, Path]) -> None:
    stage = re.match(r"--from=(\S+) ", rest)
    source, target = rest.split()[-2:]
    if stage is None:
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        archive = subprocess.run(
            ["tar", "-c", "--null", "-T", "-"], cwd=ROOT, input=files, capture_output=True, check=True
        )
        (tree / target.lstrip("/")).mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", tree / target.lstrip("/")], input=archive.stdout, check=True)
    else:
        shutil.copytree(stages[stage[1]] / source.lstrip("/"), tree / target.lstrip("/"), symlinks=True)


def build(base: Path, scratch: Path) -> tuple[Path, dict[str, str]]:
    """The last stage's tree, and the last of each instruction."""
    stages: dict[str, Path] = {}
    last: dict[str, str] = {}
    tree = base
    for word, rest in steps_of((ROOT / "deploy/Containerfile").read_text()):
        print(f"{word} {rest[:100]}", flush=True)
        last[word] = rest
        if word == "FROM":
            tree = scratch / str(len(stages))
            stages[rest.partition(" AS ")[2] or str(len(stages))] = tree
            subprocess.run(["cp", "-a", base, tree], check=True)
            borrow(tree)
        elif word == "RUN":
            run(tree, ["/bin/sh", "-c", rest])
        elif word == "COPY":
            copy(rest, tree, stages)
    return tree, last


def serve(tree: Path, last: dict[str, str]) -> None:
    """Starts the entry point, asks the health check, stops the broker. Raises SystemExit where one of them fails."""
    user = last["USER"]
    health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    entry = json.loads(last["ENTRYPOINT"])
    broker = subprocess.Popen(["chroot", f"--userspec={user}:{user}", tree, *entry])
    try:
        deadline = time.monotonic() + HEALTHY_WITHIN_S
        while subprocess.run(
            ["chroot", f"--userspec={user}:{user}", tree, *health], capture_output=True, check=False
        ).returncode:
            if broker.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the container did not become healthy")
            time.sleep(0.2)
        print("healthy")
        client = ["/opt/moldau/bin/moldau", "topics", "create", "orders", "-b", "127.0.0.1:9092"]
        run(tree, client, user)
    finally:
        broker.send_signal(signal.SIGTERM)
        code = broker.wait(60)
    if code:
        raise SystemExit(f"the broker ended with exit code {code}")
    size = subprocess.run(["du", "-sm", tree], capture_output=True, text=True, check=True).stdout.split()[0]
    print(f"stopped cleanly; the image's files take {size} MB, /opt/moldau and Python included")


if __name__ == "__main__":
    serve(*build(Path(sys.argv[1]), Path(sys.argv[2])))
