"""The file that makes Spark start faster: a command makes it, each session uses it, and a damaged one does no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.spark.session.class_cache import class_cache, noting, of_installations_before, using
from moldau.spark.session.java import Java, find_java

SESSION = """
from moldau.spark import open_session

spark = open_session()
process = spark._jvm.java.lang.ProcessHandle.current().pid()
mapped = [line.split()[-1] for line in open(f"/proc/{process}/maps") if line.rstrip().endswith((".aot", ".jsa"))]
print(spark.range(10).count(), *sorted({name for name in mapped if "classes-" in name}))
"""


@pytest.mark.parametrize(("version", "option"), [(17, "-XX:SharedArchiveFile="), (25, "-XX:AOTCache=")])
def test_a_file_belongs_to_one_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, option: str):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    java, other = (Java(tmp_path / name, version, lacks_vector_module=False) for name in ("one", "other"))
    assert class_cache(java) != class_cache(other)
    assert using(java) == ""
    class_cache(java).parent.mkdir(parents=True)
    class_cache(java).touch()
    assert using(java).startswith(f"'{option}{tmp_path}/a cache/moldau/")
    assert using(other) == ""
    assert noting(java, tmp_path / "made").endswith(f"={tmp_path}/made")


def test_a_spark_that_is_installed_anew_asks_for_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The JVM silently ignores a file if a jar has another modification time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jars = tmp_path / "jars"
    jars.mkdir()
    jar = jars / "spark.jar"
    jar.write_bytes(b"classes")
    java, other = (Java(tmp_path / name, 25, lacks_vector_module=False) for name in ("one", "other"))
    before = class_cache(java, jars)
    before.parent.mkdir(parents=True)
    for file in (before, class_cache(other, jars), class_cache(java)):
        file.touch()
    assert using(java, jars) != ""
    assert of_installations_before(class_cache(java, jars)) == []
    os.utime(jar, ns=(1, 1))
    assert using(java, jars) == ""
    assert of_installations_before(class_cache(java, jars)) == [before]


@pytest.mark.slow  # two JVMs, and a third one that writes the file if the user has none
def test_warm_up_makes_a_file_that_sessions_use_unless_it_is_damaged(tmp_path: Path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    made_before, folder = class_cache(find_java()), tmp_path / "moldau"
    if made_before.is_file():  # as in `make slow-spark`
        folder.mkdir()
        shutil.copy(made_before, folder)

    def said(*words: str) -> str:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    warm_up = (sys.executable, "-m", "moldau.cli.main", "pipeline", "warm-up")
    assert ("is there already" if folder.is_dir() else "Spark starts from it") in said(*warm_up)
    (file,) = (path for path in folder.iterdir() if path.name.startswith(("classes-", "warm-up-")))
    assert said(sys.executable, "-c", SESSION) == f"10 {file}\n"
    before = file.stat().st_mtime_ns
    assert "is there already" in said(*warm_up)
    assert file.stat().st_mtime_ns == before
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.unlink()
    file.write_bytes(damaged)
    assert said(sys.executable, "-c", SESSION).split()[0] == "10"
