"""`moldau pipeline check`: what pages mean, told without a broker and without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.main import main

PAGE = """\
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


def page(directory: Path, name: str, **changes: str) -> str:
    text = PAGE.format(name=name)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = directory / f"{name}-{len(list(directory.iterdir()))}.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_page_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = page(tmp_path, "minutes")
    assert main(["pipeline", "check", file]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{file}:\n  pipeline     minutes\n")
    assert "exactly once" in told.out
    assert told.err == ""


def test_a_mistake_names_file_line_key_and_the_nearest_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt = page(tmp_path, "a", schema="shema")
    wrong = page(tmp_path, "b", json="jsn")
    well = page(tmp_path, "c")
    assert main(["pipeline", "check", misspelt, wrong, well]) == 2
    told = capsys.readouterr()
    assert f"{misspelt}:6: `shema` is not known here (did you mean `schema`?); known are topic" in told.err
    assert f"{wrong}:5: `format` must be one of " in told.err
    assert "not `jsn`; did you mean `json`?" in told.err
    assert well in told.out


def test_pages_that_share_a_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = page(tmp_path, "same"), page(tmp_path, "same", orders="others")
    third = page(tmp_path, "another", sql="group: moldau.same\nsql")
    assert main(["pipeline", "check", first, second, third]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{second}: `name` same is that of {first}: each page needs its own",
        f"{third}: `group` moldau.same is that of {first}: each page needs its own",
    ]


def test_a_page_with_the_name_of_another_pages_query_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long = page(tmp_path, "shop.eu", sql="group: own\nsql"), tmp_path / "shop.yaml"
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
def test_pages_that_write_to_one_place_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str, other: str, place: str
) -> None:
    first, second = page(tmp_path, "a", **{"topic: out": sink}), page(tmp_path, "b", **{"topic: out": other})
    assert main(["pipeline", "check", first, second]) == 2
    key = other.partition(":")[0]
    assert capsys.readouterr().err.splitlines() == [
        f"{second}:8: `sink` writes to {place.format(directory=tmp_path)}, and so does `sink` of {first}:8: only one "
        f"page may, so name another place with `{key}`"
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
    pages = page(tmp_path, "a", **{"topic: out": sink}), page(tmp_path, "b", **{"topic: out": other})
    assert main(["pipeline", "check", *pages]) == 0, capsys.readouterr().err


def test_neither_spark_nor_arrow_is_loaded(tmp_path: Path) -> None:
    program = (
        "import sys; from moldau.cli.main import main; main(['pipeline', 'check', sys.argv[1]]);"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", program, page(tmp_path, "light")]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines()[-1] == "[]"
