"""docs/operate/security.md runs as written, up to its users and ACLs, on ports of the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.guides import ROOT
from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "operate" / "security.md"
PATIENCE_S = 120
PASSWORDS = ("node-secret", "admin-secret", "alice-secret")


def run(words: list[str], directory: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        cwd=directory,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}"
    return done.stdout


def test_the_guide_runs_as_it_stands(tmp_path: Path) -> None:
    held = {9092: held_port(), 9093: held_port()}
    # logins have their own test, and the token commands need an id that a reader fills in
    text = PAGE.read_text(encoding="utf-8").partition("## Logins for the web console")[0]
    for port, one in held.items():
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{port_of(one)}")
    broker: RunningBroker | None = None
    told: dict[str, str] = {}
    try:
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            if language == "properties":
                path = tmp_path / re.findall(r"^# (\S+)", block)[0]
                path.write_text(block, encoding="utf-8")
                path.chmod(0o600)
            elif language == "python":
                run([sys.executable, "-c", block], tmp_path)
            else:
                assert language == "sh"
                for line in block.splitlines():
                    if line.startswith("moldau up"):
                        words = line.removeprefix("moldau up").split()
                        broker = RunningBroker(*words, "--no-console", cwd=tmp_path).wait_until_ready()
                    else:
                        told[line] = run(["bash", "-c", line], tmp_path)
        assert broker is not None
        assert any(line.startswith("moldau consume") and "coffee" in said for line, said in told.items())
        assert any(line.startswith("moldau acls explain") and "User:alice" in said for line, said in told.items())
        assert broker.stop() == 0
        audited = (tmp_path / "audit.log").read_text(encoding="utf-8")
        assert '"CREATE_TOPICS"' in audited
        for password in PASSWORDS:
            assert password not in audited + "".join(broker.output) + "".join(told.values())
    finally:
        if broker is not None:
            broker.kill()
        for one in held.values():
            one.close()
