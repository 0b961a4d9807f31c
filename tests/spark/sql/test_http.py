"""The HTTP interface of SQL over an engine, a broker and Spark."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.main import main
from moldau.client.protocol.access import ClusterAccess
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.products.sql.engine.engine import Engine, EngineSettings
from moldau.products.sql.serving.http.routes import error, not_found, sql_routes

pytestmark = pytest.mark.slow
WAIT_S = 120
COLUMNS = (
    "id BIGINT KEY, small SMALLINT, price DECIMAL(12, 2), rate DOUBLE, name STRING, is_new BOOLEAN, raw BYTES, "
    "day DATE, at TIMESTAMP, tags ARRAY<STRING>, counts MAP<STRING, INT>, place STRUCT<city STRING, zip INT>"
)
FULL = {
    "id": 1, "small": -5, "price": 1234567890.25, "rate": 0.5, "name": "it's \\ ${x} \u2603", "is_new": True,
    "raw": "AP8=", "day": "2026-01-02", "at": "2026-01-02T03:04:05.006", "tags": ["a", None], "counts": {"a": 1},
    "place": {"city": "Ia\u0219i", "zip": 700},
}  # fmt: skip
EMPTY = {**dict.fromkeys(FULL), "id": 2}


class Served:
    """An instance that leads."""

    service_id, leader_address = "shop", None

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    @contextmanager
    def open(self, path: str, body: object, accept: str = "") -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"accept": accept, "connection": "close"})
        with closing(connection), connection.getresponse() as answer:
            yield answer

    def ask(self, path: str, text: str) -> tuple[int, Any]:
        with self.open(path, {"ksql": text}) as answer:
            return answer.status, json.loads(answer.read())

    def done(self, text: str) -> list[dict[str, Any]]:
        status, found = self.ask("/ksql", text)
        assert status == 200, found
        return found

    def rows(self, text: str) -> list[list[Any]]:
        status, found = self.ask("/query", text)
        assert status == 200, found
        assert "finalMessage" in found[-1], found[-1]
        return [one["row"]["columns"] for one in found[1:-1]]


@pytest.fixture(scope="module")
def engine(spark, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory: Path = tmp_path_factory.mktemp("sql")
    stopping = threading.Event()
    with Engine(spark, EngineSettings(ClusterAccess(bootstrap_servers), directory, name="http")) as engine:

        def supervise() -> None:
            while not stopping.wait(0.2):
                engine.supervise()

        thread = threading.Thread(target=supervise)
        thread.start()
        try:
            yield engine
        finally:
            stopping.set()
            thread.join(WAIT_S)


@pytest.fixture(scope="module")
def client(engine: Engine) -> Iterator[Client]:
    service = Service("sql", this_machine)
    app = service.app(sql_routes(Served(engine), service, "cluster-1"), not_found, error=error)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with served_in_thread(service, app, listening):
            yield Client(listening.getsockname()[1])


def test_a_table_of_counts_is_made_and_read_while_rows_come(client: Client, engine: Engine) -> None:
    made = client.done(
        "CREATE STREAM http_clicks (user STRING KEY, page STRING) WITH (partitions = 1);"
        "CREATE TABLE http_counts AS SELECT user, count(*) AS n FROM http_clicks GROUP BY user;"
        "INSERT INTO http_clicks VALUES ('ada', 'a'), ('ada', 'b'), ('bob', 'a');"
    )
    assert [one["commandId"] for one in made] == ["stream/http_clicks/create", "table/http_counts/create"]
    query_id = made[1]["commandStatus"]["queryId"]
    assert query_id in engine.catalog.queries
    with client.open("/query", {"sql": "SELECT * FROM http_counts EMIT CHANGES;"}, "application/x-ndjson") as answer:
        header = json.loads(answer.readline())["header"]
        assert header["schema"] == "`user` STRING, `n` BIGINT"
        newest: dict[str, int] = {}
        while newest != {"ada": 2, "bob": 1}:
            user, n = json.loads(answer.readline())["row"]["columns"]
            newest[user] = n
        client.done("INSERT INTO http_clicks VALUES ('bob', 'b');")
        while newest["bob"] != 2:
            user, n = json.loads(answer.readline())["row"]["columns"]
            newest[user] = n
    assert sorted(client.rows("SELECT user, n FROM http_counts;")) == [["ada", 2], ["bob", 2]]
    (queries,) = client.done("SHOW QUERIES;")
    (query,) = (one for one in queries["queries"] if one["id"] == query_id)
    assert (query["state"], query["sinks"], query["moldau"]["error"]) == ("RUNNING", ["http_counts"], None)
    described = client.done("DESCRIBE http_counts EXTENDED;")[0]["sourceDescription"]
    assert [(one["name"], one.get("type")) for one in described["fields"]] == [("user", "KEY"), ("n", None)]
    assert (described["partitions"], [one["id"] for one in described["writeQueries"]]) == (1, [query_id])
    explained = client.done(f"EXPLAIN {query_id};")[0]["queryDescription"]
    assert (explained["sources"], explained["sinks"]) == (["http_clicks"], ["http_counts"])
    assert explained["executionPlan"]
    client.done(f"TERMINATE {query_id}; DROP TABLE http_counts DELETE TOPIC;")
    assert query_id not in engine.catalog.queries


def test_rows_of_every_type_come_back_as_they_were_sent(client: Client) -> None:
    client.done(f"CREATE STREAM http_rows ({COLUMNS}) WITH (partitions = 1);")
    lines = [json.dumps({"target": "HTTP_ROWS"}), json.dumps(FULL), json.dumps(EMPTY), '{"id": "x"}', '{"id": 4}']
    with client.open("/inserts-stream", "\n".join(lines).encode()) as answer:
        acks = [json.loads(line) for line in answer.read().splitlines()]
    assert [(one["status"], one["seq"]) for one in acks] == [("ok", 0), ("ok", 1), ("error", 2)]
    assert client.rows("SELECT * FROM http_rows;") == [list(FULL.values()), list(EMPTY.values())]
    with client.open("/query-stream", {"sql": "SELECT * FROM http_rows EMIT CHANGES LIMIT 2;"}) as answer:
        head, *rows = (json.loads(line) for line in answer.read().splitlines())
    assert dict(zip(head["columnNames"], head["columnTypes"], strict=True)) == {
        "id": "BIGINT", "small": "INTEGER", "price": "DECIMAL(12, 2)", "rate": "DOUBLE", "name": "STRING",
        "is_new": "BOOLEAN", "raw": "BYTES", "day": "DATE", "at": "TIMESTAMP", "tags": "ARRAY<STRING>",
        "counts": "MAP<STRING, INTEGER>", "place": "STRUCT<`city` STRING, `zip` INTEGER>",
    }  # fmt: skip
    assert sorted(rows) == [list(FULL.values()), list(EMPTY.values())]
    with client.open("/query", {"ksql": "PRINT http_rows FROM BEGINNING LIMIT 1;"}) as answer:
        printed = json.loads(answer.read())
    assert printed[1]["row"]["columns"][1:3] == [0, 0]


def test_what_spark_rejects_is_an_error_of_the_statement(client: Client) -> None:
    status, found = client.ask("/query", "SELECT nothing FROM http_missing;")
    assert (status, found["error_code"]) == (400, 40001)
    client.done("CREATE STREAM http_wrong (id INT) WITH (partitions = 1);")
    for text in ("SELECT nam FROM http_wrong EMIT CHANGES;", "SELECT upper(id, 1) FROM http_wrong;"):
        status, found = client.ask("/query", text)
        assert (status, found["error_code"], found["@type"]) == (400, 40001, "statement_error")
        assert "line 1" in found["message"]


def test_a_client_that_goes_away_ends_its_query(client: Client, engine: Engine, spark) -> None:
    client.done("CREATE STREAM http_left (id INT) WITH (partitions = 1);")
    before = threading.active_count()
    with client.open("/query", {"ksql": "SELECT * FROM http_left EMIT CHANGES;"}) as answer:
        answer.readline()
        (rows,) = (one for one in engine._live if not one.stream.is_over)
    ended = threading.Event()
    rows.stream.on_close(ended.set)  # type: ignore[attr-defined]
    assert ended.wait(WAIT_S)
    assert threading.active_count() <= before + 2


def test_scripts_and_the_shell_send_statements_to_a_server(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(text: str) -> tuple[int, list[dict[str, Any]], str]:
        script = tmp_path / "a.sql"
        script.write_text(text)
        code = main(["sql", "run", str(script), "--server", f"http://127.0.0.1:{client.port}", "--output", "json"])
        printed = capsys.readouterr()
        return code, [json.loads(line) for line in printed.out.splitlines()], printed.err

    code, answers, errors = ran(
        "SET 'auto.offset.reset' = 'earliest';"
        "CREATE STREAM http_far (user STRING KEY, `a b` STRUCT<x INT, y STRING>) WITH (partitions = 1);"
        "INSERT INTO http_far VALUES ('ada', named_struct('x', 1, 'y', 'z'));"
        "SELECT * FROM http_far EMIT CHANGES LIMIT 1; SHOW STREAMS; DESCRIBE http_far;"
    )
    assert (code, errors) == (0, "")
    head, row = answers[3:5]
    assert [one["name"] for one in head["columns"]] == ["user", "a b"]
    assert list(row["row"].values()) == ["ada", {"x": 1, "y": "z"}]
    assert "http_far" in json.dumps(answers[5])
    assert "http_far" in json.dumps(answers[6])
    code, answers, errors = ran("SELECT nothing FROM http_far;")
    assert (code, answers) == (1, [])
    assert "nothing" in errors
    code, answers, errors = ran("SHOW STREMS;")
    assert (code, answers) == (2, [])
    assert "did you mean STREAMS" in errors
