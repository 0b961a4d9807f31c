"""`moldau pipeline check`: the meaning of pipeline files, without a broker and without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from moldau.cli.main import main
from moldau.extras import PACKAGES
from moldau.products.pipelines.targets.rights import check_database, check_folder
from moldau.products.pipelines.targets.target import TargetError
from tests.cluster.guides import blocks

NOBODY = 65534

SPEC = """\
name: {name}
bootstrap_servers: localhost:9092
source:
  topic: orders
  format: json
  schema: user string, amount double
sql: select user from source
sink:
  topic: out
"""


def spec(directory: Path, name: str, **changes: str) -> str:
    text = SPEC.format(name=name)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = directory / f"{name}-{len(list(directory.iterdir()))}.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_pipeline_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = spec(tmp_path, "minutes")
    assert main(["pipeline", "check", file]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{file}:\n  pipeline     minutes\n")
    assert "exactly once" in told.out
    assert told.err == ""


def test_a_mistake_names_file_line_key_and_the_nearest_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt = spec(tmp_path, "a", schema="shema")
    wrong = spec(tmp_path, "b", json="jsn")
    well = spec(tmp_path, "c")
    assert main(["pipeline", "check", misspelt, wrong, well]) == 2
    told = capsys.readouterr()
    assert f"{misspelt}:6: `shema` is not known here (did you mean `schema`?); known are topic" in told.err
    assert f"{wrong}:5: `format` must be one of " in told.err
    assert "not `jsn`; did you mean `json`?" in told.err
    assert well in told.out


def test_pipelines_that_share_a_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = spec(tmp_path, "same"), spec(tmp_path, "same", orders="others")
    third = spec(tmp_path, "another", sql="group: moldau.same\nsql")
    assert main(["pipeline", "check", first, second, third]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{second}: `name` same is that of {first}: each pipeline needs its own",
        f"{third}: `group` moldau.same is that of {first}: each pipeline needs its own",
    ]


def test_a_pipeline_with_the_name_of_another_pipelines_query_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long = spec(tmp_path, "shop.eu", sql="group: own\nsql"), tmp_path / "shop.yaml"
    long.write_text(
        "name: shop\nbootstrap_servers: localhost:9092\nsources:\n  orders: {topic: orders, format: string}\n"
        "targets:\n  eu: {from: orders, path: out}\n"
    )
    for first, second in ((short, str(long)), (str(long), short)):
        assert main(["pipeline", "check", first, second]) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"{second}: its query shop.eu has the name of one of {first}: write another `name`"
        ]


@pytest.mark.parametrize(
    ("sink", "other", "place"),
    [
        ("path: out", "path: other/../out", "{directory}/out"),
        ("path: out", "delta: out", "{directory}/out"),
        ("path: s3://lake/out", "path: s3://lake/out/", "s3://lake/out"),
        ("iceberg: a.b\n  warehouse: w", "iceberg: a.b\n  warehouse: w\n  catalog: c.db", "a.b in {directory}/w"),
        ("sqlite: a.db\n  table: t", "sqlite: ./a.db\n  table: t", "table t of {directory}/a.db"),
        (
            "postgresql: postgres://ann@db/shop\n  table: t",
            "postgresql: postgresql://bob@db/shop\n  table: public.t",
            "table public.t of postgresql://db/shop",
        ),
    ],
)
def test_pipelines_that_write_to_one_place_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str, other: str, place: str
) -> None:
    first, second = spec(tmp_path, "a", **{"topic: out": sink}), spec(tmp_path, "b", **{"topic: out": other})
    assert main(["pipeline", "check", first, second]) == 2
    key = other.partition(":")[0]
    assert capsys.readouterr().err.splitlines() == [
        f"{second}:8: `sink` writes to {place.format(directory=tmp_path)}, and so does `sink` of {first}:8: only one "
        f"pipeline may, so name another place with `{key}`"
    ]


@pytest.mark.parametrize(
    ("sink", "other"),
    [
        ("topic: out", "topic: out"),  # each transaction has its own id
        ("path: out", "path: out2"),
        ("sqlite: a.db\n  table: t", "sqlite: a.db\n  table: u"),
        ("webhook: http://a/", "webhook: http://a/"),
        ("terminal: true", "terminal: true"),
    ],
)
def test_other_places_are_those_of_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str, other: str
) -> None:
    specs = spec(tmp_path, "a", **{"topic: out": sink}), spec(tmp_path, "b", **{"topic: out": other})
    assert main(["pipeline", "check", *specs]) == 0, capsys.readouterr().err


def test_neither_spark_nor_arrow_is_loaded(tmp_path: Path) -> None:
    program = (
        "import sys; from moldau.cli.main import main; main(['pipeline', 'check', sys.argv[1]]);"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", program, spec(tmp_path, "light")]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"select user from": "select usr from"}, ":7: `sql`: there is no column `usr`; did you mean `user`?"),
        (
            {"topic: out": "topic: out\n  key: amount"},
            ":8: `sink`: `key` names the column 'amount', but the SQL gives user",
        ),
        (
            {"topic: out": "path: x-0.yaml/out"},
            ":8: `sink`: {dir}/x-0.yaml/out cannot be made: {dir}/x-0.yaml is not a",
        ),
        ({"topic: out": "path: x-0.yaml"}, ":8: `sink`: {dir}/x-0.yaml is not a directory"),
        (
            {"topic: out": "delta: x-0.yaml/out"},
            ":8: `sink`: {dir}/x-0.yaml/out cannot be made: {dir}/x-0.yaml is not a",
        ),
        ({"topic: out": "sqlite: x-0.yaml\n  table: t"}, ":8: `sink`: {dir}/x-0.yaml is not an SQLite database"),
        ({"topic: out": "sqlite: .\n  table: t"}, ":8: `sink`: {dir} is not a file"),
        ({"topic: out": "iceberg: a.b\n  warehouse: x-0.yaml"}, ":8: `sink`: {dir}/x-0.yaml is not a directory"),
    ],
)
def test_what_shows_without_spark_is_refused_at_once(
    changes: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = spec(tmp_path, "x", **changes)
    assert main(["pipeline", "check", file]) == 2
    assert capsys.readouterr().err.startswith(f"{file}{said.format(dir=tmp_path)}")
    assert [one.name for one in tmp_path.iterdir()] == ["x-0.yaml"]


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """The user root may write everywhere, so the test runs as another user meanwhile."""
    if os.getuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_target_without_the_right_to_write_is_refused_at_once() -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        locked, database = directory / "locked", directory / "a.db"
        locked.mkdir()
        database.touch()
        for path, mode in ((directory, 0o755), (locked, 0o555), (database, 0o444)):
            path.chmod(mode)
        with as_somebody_else():
            with pytest.raises(TargetError, match=f"{locked}/out cannot be made in {locked}: permission denied"):
                check_folder(f"{locked}/out")
            with pytest.raises(TargetError, match=f"{locked} cannot be written to: permission denied"):
                check_folder(str(locked))
            for file in (locked / "a.db", database):
                with pytest.raises(TargetError, match="permission denied"):
                    check_database(file)
        locked.chmod(0o755)
    check_folder("s3://bucket/of/somebody")  # is asked at the first write


def test_a_check_says_what_it_did_not_look_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "check", spec(tmp_path, "x")]) == 0
    assert capsys.readouterr().out.endswith(
        "  not checked  the SQL but for misspelt columns, and whatever other machines hold: "
        "`moldau pipeline plan` does\n"
    )


def test_pipelines_are_checked_and_drawn_without_the_extra(tmp_path: Path) -> None:
    """The extra brings 1.1 GB; check and graph work without it."""
    file = spec(tmp_path, "x")
    hidden = [name for names in PACKAGES.values() for name in names]
    program = f"""
import sys
sys.modules |= dict.fromkeys({hidden!r})
from moldau.cli.main import main
sys.exit(main(["pipeline", "check", {file!r}]) or main(["pipeline", "graph", {file!r}]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(
        "x\n└── source: topic orders (json), first run from the earliest offsets\n    └── x\n"
        "        └── -> x: topic out (append)\n"
    )


def test_the_pipeline_of_the_readme_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in blocks() if block.page == "README.md" and block.language == "yaml"]
    file = tmp_path / "shop.yaml"
    file.write_text(block.text, encoding="utf-8")
    assert main(["pipeline", "check", str(file)]) == 0
    assert capsys.readouterr().err == ""
