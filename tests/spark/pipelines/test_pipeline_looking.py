"""`moldau pipeline plan` and `preview`: show a pipeline through Spark, without changes."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.cli.main import main


@pytest.fixture
def spec(spark, bootstrap_servers, new_topic, new_name, produce, tmp_path: Path) -> Path:
    topic, out = new_topic(), new_topic()
    values = [b'{"user":"ann","amount":120}', b'{"user":"bob","amount":5}', b"no JSON", b'{"user":"ann","amount":300}']
    produce(topic, [(None, value) for value in values])
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"""
name: {new_name("look").replace(".", "-")}
bootstrap_servers: {bootstrap_servers}
sources:
  orders: {{topic: {topic}, format: json, schema: "user string, amount double", start: latest}}
flows:
  big: select user, amount from orders where amount >= 100
  counts: select user, count(*) as n from big group by user
targets:
  lake: {{from: big, path: out}}
  counts: {{topic: {out}, key: user, mode: update}}
checkpoint: state
""",
        encoding="utf-8",
    )
    return file


def topic_of(spec: Path) -> str:
    return spec.read_text().partition("topic: ")[2].partition(",")[0]


def test_the_plan_tells_the_columns_and_what_a_run_would_do(spec: Path, capsys: pytest.CaptureFixture[str]):
    name, topic = spec.read_text().split()[1], topic_of(spec)
    assert main(["pipeline", "plan", str(spec)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{name}.lake: begins; 0 records wait",
        "  user string, amount double",
        f"  reads {topic}-0 from offset 4",
        f"{name}.counts: begins; 0 records wait",
        "  user string, n bigint",
        f"  reads {topic}-0 from offset 4",
    ]
    spec.write_text(spec.read_text().replace("select user, amount from", "select user, price from"))
    assert main(["pipeline", "plan", str(spec)]) == 1
    assert f"moldau pipeline: {spec}:7: `flows.big`: " in capsys.readouterr().err
    assert not (spec.parent / "state").exists()


def test_a_plan_makes_nothing(spec: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]):
    """Not the topic of a target, though the cluster creates topics by itself; not a directory, nor a group."""
    out, files = "tallies", spec.parent / "files"
    files.mkdir()
    (files / "a.json").write_text('{"user": "ann"}\n', "utf-8")
    text = (
        spec.read_text()
        .replace(", key: user, mode: update", "")
        .replace(
            "flows:",
            """\
  found: {files: "files/*.json", format: json, schema: user string}
flows:
  all_found: select user from found""",
        )
    )
    text = re.sub(r"  counts: \{topic: .*\n", f"  made: {{from: all_found, topic: {out}}}\n", text)
    spec.write_text(re.sub(r"  counts: select .*\n", "", text))
    before = sorted(spec.parent.rglob("*"))
    assert main(["pipeline", "plan", str(spec)]) == 0
    assert f"  topic {out} does not exist: a run lets the cluster make it\n" in capsys.readouterr().out
    assert sorted(spec.parent.rglob("*")) == before
    assert out not in AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=10).topics


@pytest.mark.slow
def test_the_plan_tells_what_changed_what_state_is_kept_and_where_a_run_reads_on(
    spec: Path, produce, capsys: pytest.CaptureFixture[str]
):
    spec.write_text(spec.read_text().replace(", start: latest", ""))
    assert main(["pipeline", "run", str(spec), "--once"]) == 0
    produce(topic_of(spec), [(None, b'{"user":"bob","amount":200}')])
    capsys.readouterr()
    assert main(["pipeline", "plan", str(spec)]) == 0
    lake, _, lake_reads, counts, _, counts_reads, state = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in (lake, counts)] == ["goes on after batch 0; 1 records wait"] * 2
    assert lake_reads == counts_reads == f"  reads {topic_of(spec)}-0 from offset 4"
    assert re.fullmatch(r"  the state of 1 step \([1-9][0-9.]* K?i?B\) is kept", state), state
    spec.write_text(spec.read_text().replace("count(*) as n", "count(*) as m"))
    assert main(["pipeline", "plan", str(spec)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "refused: `flows.counts` changed" in told[3]
    assert told[5:7] == [
        "  `flows.counts` was select user, count(*) as n from big group by user",
        "  `flows.counts` is select user, count(*) as m from big group by user",
    ]
    assert told[-1].endswith("B) stays with the old checkpoint after a reset")


@pytest.mark.slow
def test_a_preview_shows_the_first_rows_and_leaves_no_trace(
    spec: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["pipeline", "preview", str(spec), "big", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"user": "ann", "amount": 120.0}, {"user": "ann", "amount": 300.0}]
    assert main(["pipeline", "preview", str(spec), "orders", "--json", "--rows", "1"]) == 0
    assert [row["user"] for row in json.loads(capsys.readouterr().out)] == ["ann"]
    assert main(["pipeline", "preview", str(spec), "counts"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["ann", "2"]
    # no more rows than groups: an aggregate that is not read to its end fails the stream
    assert main(["pipeline", "preview", str(spec), "counts", "--rows", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["ann", "2"]
    assert main(["pipeline", "preview", str(spec), "orders", "--rows", "1"]) == 0
    heads = ["user", "amount", "_key", "_topic", "_partition", "_offset", "_timestamp"]
    assert capsys.readouterr().out.splitlines()[0].split() == heads
    assert main(["pipeline", "preview", str(spec), "biig"]) == 2
    assert "'biig' is no source and no flow; orders, big, counts are" in capsys.readouterr().err
    spec_name, topic = spec.read_text().split()[1], topic_of(spec)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": f"moldau.{spec_name}.lake"})
    assert [one.offset for one in consumer.committed([TopicPartition(topic, 0)], timeout=30)] == [-1001]
    consumer.close()
    assert sorted(path.name for path in spec.parent.iterdir()) == ["spec.yaml"]


def test_a_preview_of_what_cannot_be_read_is_one_sentence(
    spec: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    """Spark itself reads a table only when its rows are asked for."""
    text = spec.read_text()
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("create table users (name int)")
        connection.execute("insert into users values ('no number')")
    spec.write_text(
        text.replace("flows:", "  users: {sqlite: shop.db, table: users, as: table}\nflows:").replace(
            "select user, amount from orders where", "select user, amount from orders cross join users where"
        )
    )
    assert main(["pipeline", "preview", str(spec), "users"]) == 1
    assert capsys.readouterr().err == ("moldau pipeline: the column 'name' has 'no number', which is not int64\n")
    with pytest.raises(SystemExit):
        main(["pipeline", "preview", str(spec), "big", "--rows", "0"])
    assert "must be at least 1, not '0'" in capsys.readouterr().err
