"""The HTTP interface of SQL over real connections: shapes, streams, bounds. Without Spark."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from starlette.requests import Request

from moldau.errors import MoldauError
from moldau.products.service.admission import Admit, Refusal, this_machine
from moldau.products.service.people import How, Person, Role
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.products.sql.engine.answers import ChangedRow
from moldau.products.sql.serving.http.bodies import MAX_BODY, MAX_LINE
from moldau.products.sql.serving.http.live import Sending
from moldau.products.sql.serving.http.routes import error, not_found, sql_routes
from tests.support.listed_sql import ListedRows, ListedSql

WAIT_S = 60
ORDERS = "CREATE STREAM orders (id BIGINT KEY, name STRING, price DECIMAL(10, 2)) WITH (partitions = 1);"
COLUMNS = [("id", "bigint"), ("price", "decimal(10,2)"), ("raw", "binary"), ("at", "timestamp")]
ROWS = [
    ChangedRow((1, Decimal("1.50"), b"\xff", datetime(2026, 1, 2, 3, 4, 5))),
    ChangedRow((1, None, None, None), is_deleted=True),
]
FORMS = {
    ("/query", ""): '[{"header":{"queryId":"transient_1","schema":"`id` BIGINT, `price` DECIMAL(10, 2), `raw` BYTES, '
    '`at` TIMESTAMP"}},\n{"row":{"columns":[1,1.50,"/w==","2026-01-02T03:04:05.000"]}},\n'
    '{"row":{"columns":[1,null,null,null],"tombstone":true}},\n{"finalMessage":"Query Completed"}]\n',
    ("/query", "application/x-ndjson"): '{"header":{"queryId":"transient_1","schema":"`id` BIGINT, `price` '
    'DECIMAL(10, 2), `raw` BYTES, `at` TIMESTAMP"}}\n{"row":{"columns":[1,1.50,"/w==","2026-01-02T03:04:05.000"]}}\n'
    '{"row":{"columns":[1,null,null,null],"tombstone":true}}\n{"finalMessage":"Query Completed"}\n',
    ("/query-stream", "text/event-stream"): 'event: header\ndata: {"queryId":"transient_1","schema":"`id` BIGINT, '
    '`price` DECIMAL(10, 2), `raw` BYTES, `at` TIMESTAMP"}\n\n'
    'event: row\ndata: {"columns":[1,1.50,"/w==","2026-01-02T03:04:05.000"]}\n\n'
    'event: row\ndata: {"columns":[1,null,null,null],"tombstone":true}\n\n'
    'event: end\ndata: {"finalMessage":"Query Completed"}\n\n',
    ("/query-stream", "*/*"): '{"queryId":"transient_1","columnNames":["id","price","raw","at"],"columnTypes":'
    '["BIGINT","DECIMAL(10, 2)","BYTES","TIMESTAMP"]}\n[1,1.50,"/w==","2026-01-02T03:04:05.000"]\n',
    ("/query-stream", "application/json"): '[{"queryId":"transient_1","columnNames":["id","price","raw","at"],'
    '"columnTypes":["BIGINT","DECIMAL(10, 2)","BYTES","TIMESTAMP"]},\n[1,1.50,"/w==","2026-01-02T03:04:05.000"]]\n',
}  # fmt: skip


class Instance:
    """An instance of the service. Without `engine` another one runs the statements."""

    service_id = "shop"

    def __init__(self, engine: ListedSql | None) -> None:
        self.engine = engine
        self.leader_address = None if engine else "http://host-2:8088"


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """The status, and the body as JSON."""
        with closing(self.open(method, path, body, **headers)) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None

    def open(self, method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
        """A response that is read as it comes; it is its connection, too."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {**headers, "connection": "close"})
        return connection.getresponse()

    def ksql(self, text: str, **more: object) -> tuple[int, Any]:
        return self.ask("POST", "/ksql", {"ksql": text, **more})

    def select(self, text: str, **headers: str) -> http.client.HTTPResponse:
        return self.open("POST", "/query", {"ksql": text}, **headers)


@contextmanager
def served(engine: ListedSql | None, sending: Sending | None = None, admit: Admit = this_machine) -> Iterator[Client]:
    service = Service("sql", admit)
    app = service.app(sql_routes(Instance(engine), service, "cluster-1", sending), not_found, error=error)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with served_in_thread(service, app, listening):
            yield Client(listening.getsockname()[1])


@pytest.fixture
def engine() -> ListedSql:
    return ListedSql()


@pytest.fixture
def client(engine: ListedSql) -> Iterator[Client]:
    with served(engine) as found:
        yield found


def viewer(name: str) -> Admit:
    async def admit(request: Request, _: Role) -> Person | Refusal:
        return Person(f"User:{request.headers.get('x-name', name)}", Role.VIEWER, How.BASIC)

    return admit


# --- the instance ---


def test_the_instance_tells_who_it_is(client: Client) -> None:
    status, info = client.ask("GET", "/info")
    assert status == 200
    assert info["KsqlServerInfo"].pop("version")
    assert info == {
        "KsqlServerInfo": {"kafkaClusterId": "cluster-1", "ksqlServiceId": "shop", "serverStatus": "RUNNING"}
    }
    status, health = client.ask("GET", "/healthcheck")
    assert (status, health["isHealthy"], health["serverState"]) == (200, True, "READY")
    assert health["details"]["kafka"] == {"isHealthy": True}
    with closing(client.open("GET", "/info", accept="application/vnd.ksql.v1+json")) as answer:
        assert answer.headers["content-type"] == "application/vnd.ksql.v1+json"
    status, found = client.ask("GET", "/nothing")
    assert (status, found["error_code"], found["@type"]) == (404, 40400, "generic_error")
    assert client.ask("GET", "/ksql")[0] == 405


def test_an_instance_that_waits_names_the_one_that_runs_statements() -> None:
    with served(None) as client:
        status, found = client.ksql("SHOW STREAMS;")
        assert (status, found["error_code"]) == (503, 50302)
        assert found["message"] == "this instance does not run statements: send it to http://host-2:8088"
        assert client.ask("GET", "/healthcheck")[1]["serverState"] == "WAITING"
        assert client.ask("GET", "/info")[0] == 200


def test_the_status_of_statements_is_known_from_what_there_is(client: Client, engine: ListedSql) -> None:
    client.ksql(
        f"{ORDERS} CREATE TABLE n AS SELECT name, count(*) AS n FROM orders GROUP BY name; CREATE TYPE t AS INT"
    )
    assert client.ask("GET", "/status")[1] == {
        "commandStatuses": {"stream/orders/create": "SUCCESS", "table/n/create": "SUCCESS", "type/t/create": "SUCCESS"}
    }
    found = client.ask("GET", "/status/stream/ORDERS/create")[1]
    assert found == {"status": "SUCCESS", "message": "stream orders is created", "queryId": None}
    assert client.ask("GET", "/status/table/%60n%60/create")[1]["queryId"] == "CTAS_N_0"
    assert client.ask("GET", "/status/terminate/CTAS_N_0/execute")[0] == 404
    assert client.ask("GET", "/status/pause/CTAS_N_0/execute")[0] == 404
    (host,) = client.ask("GET", "/clusterStatus")[1]["clusterStatus"].values()
    assert list(host["activeStandbyPerQuery"]) == ["CTAS_N_0"]
    client.ksql("PAUSE ALL;")
    assert client.ask("GET", "/status/pause/ALL/execute")[1]["status"] == "SUCCESS"
    client.ksql("TERMINATE CTAS_N_0;")
    assert client.ask("GET", "/status/terminate/CTAS_N_0/execute")[1]["status"] == "SUCCESS"
    assert client.ask("GET", "/status/table/n/create")[1]["status"] == "TERMINATED"
    client.ksql("DROP TABLE n;")
    assert client.ask("GET", "/status/table/n/drop")[1]["status"] == "SUCCESS"
    assert client.ask("GET", "/status/table/n/create") == (
        404,
        {"@type": "generic_error", "error_code": 40400, "message": "Command not found"},
    )


def test_a_property_is_valid_if_set_takes_it(client: Client) -> None:
    assert client.ask("GET", "/is_valid_property/ksql.streams.auto.offset.reset") == (200, True)
    status, found = client.ask("GET", "/is_valid_property/ksql.service.id")
    assert (status, found["error_code"]) == (400, 40000)


# --- statements ---


def test_statements_run_in_their_order_with_properties_and_variables(client: Client) -> None:
    status, found = client.ksql(
        "CREATE STREAM ${name} (id BIGINT KEY) WITH (partitions = ${n}); SHOW STREAMS; SHOW PROPERTIES;",
        sessionVariables={"name": "orders", "n": 3},
        streamsProperties={"ksql.streams.auto.offset.reset": "latest", "ksql.streams.num.stream.threads": 4},
        commandSequenceNumber=12,
        requestProperties={},
    )
    assert status == 200
    assert [one["@type"] for one in found] == ["currentStatus", "streams", "properties"]
    assert found[1]["streams"][0]["name"] == "orders"
    assert found[2]["overwrittenProperties"] == ["auto.offset.reset"]
    _, later = client.ksql("DROP STREAM orders;")
    assert later[0]["commandSequenceNumber"] > found[0]["commandSequenceNumber"]


def test_a_failed_statement_comes_with_the_answers_before_it(client: Client, engine: ListedSql) -> None:
    status, found = client.ksql(f"{ORDERS} SHOW TABLES; DROP STREAM order; SHOW STREAMS;")
    assert (status, found["@type"], found["error_code"]) == (400, "statement_error", 40001)
    assert found["statementText"] == "DROP STREAM order;"
    assert "did you mean orders?" in found["message"]
    assert [one["@type"] for one in found["entities"]] == ["currentStatus", "tables"]
    assert list(engine.catalog.relations) == ["orders"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 40000),
        (b"[]", 40000),
        (b"\xff", 40000),
        (b"[" * 100_000, 40000),
        (b'{"ksql": 1}', 40000),
        (b"{}", 40000),
        (b'{"ksql": ""}', 40000),
        (b'{"ksql": "SHOW STREAMS", "commandSequenceNumber": "a"}', 40000),
        (b'{"ksql": "SHOW STREAMS", "streamsProperties": {"a": "b"}}', 40000),
        (b'{"ksql": "SHOW STREAMS", "streamsProperties": {"auto.offset.reset": "here"}}', 40000),
        (b'{"ksql": "SHOW STREAM"}', 40001),
        (b'{"ksql": "DROP STREAM ${x}"}', 40001),
        (b'{"ksql": "CREATE STREAM a (b INT) WITH (partitions = 1); SELECT * FROM a;"}', 40002),
        (b'{"ksql": "RUN SCRIPT \'/etc/passwd\'"}', 40001),
        (b" " * (MAX_BODY + 1), 41300),
    ],
)
def test_a_wrong_request_changes_nothing(client: Client, engine: ListedSql, body: bytes, code: int) -> None:
    status, found = client.ask("POST", "/ksql", body)
    assert (status, found["error_code"]) == (code // 100, code)
    assert not engine.catalog.relations


def test_a_viewer_looks_and_reads_only(engine: ListedSql) -> None:
    engine.rows["orders"] = ListedRows(COLUMNS)
    with served(engine, admit=viewer("carol")) as client:
        status, found = client.ksql(f"SHOW STREAMS; {ORDERS}")
        assert (status, found["error_code"]) == (403, 40300)
        assert found["message"] == "User:carol is no editor here and may only look"
        assert client.ksql("SHOW STREAMS; EXPLAIN SELECT 1;")[0] == 200
        with closing(client.select("SELECT * FROM orders;")) as answer:
            assert answer.status == 200
        status, found = client.ask("POST", "/inserts-stream", b'{"target": "orders"}\n')
        assert (status, found["error_code"]) == (403, 40300)
    assert not engine.catalog.relations


# --- rows ---


@pytest.mark.parametrize(("path", "accept"), FORMS)
def test_rows_come_in_the_form_that_is_asked_for(client: Client, engine: ListedSql, path: str, accept: str) -> None:
    engine.rows["orders"] = ListedRows(COLUMNS, ROWS)
    with closing(client.open("POST", path, {"sql": "SELECT * FROM orders;"}, accept=accept)) as answer:
        assert answer.read().decode() == FORMS[path, accept]
        expected = {"": "application/json", "*/*": "application/vnd.ksqlapi.delimited.v1"}.get(accept, accept)
        assert (answer.headers["content-type"] or "").partition(";")[0] == expected
    assert engine.rows["orders"].is_closed.wait(WAIT_S)


def test_rows_come_as_they_are_made_and_a_limit_is_told(client: Client, engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    with closing(client.select("SELECT * FROM orders EMIT CHANGES LIMIT 2;")) as answer:
        assert b"header" in answer.readline()
        for number in range(2):
            rows.put(ChangedRow((number,)))
            assert answer.readline() == b'{"row":{"columns":[%d]}},\n' % number
        rows.end()
        assert answer.read() == b'{"finalMessage":"Limit Reached"}]\n'


def test_a_query_that_fails_ends_with_its_error(client: Client, engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    with closing(client.select("SELECT * FROM orders EMIT CHANGES;")) as answer:
        rows.fail(MoldauError("orders-0 offset 7: no number"))
        found = json.loads(answer.read())
    assert found[-1] == {
        "errorMessage": {
            "@type": "generic_error", "error_code": 50000, "message": "orders-0 offset 7: no number",
        }
    }  # fmt: skip
    assert rows.is_closed.wait(WAIT_S)


@pytest.mark.parametrize(
    ("text", "code"),
    [("SHOW STREAMS;", 40001), ("SELECT * FROM nothing;", 40001), ("SELECT 1; SELECT 2;", 40001), ("SELEC 1", 40001)],
)
def test_what_is_no_query_is_rejected(client: Client, text: str, code: int) -> None:
    for path in ("/query", "/query-stream"):
        status, found = client.ask("POST", path, {"ksql": text})
        assert (status, found["error_code"]) == (400, code)


def test_a_client_that_goes_away_closes_its_query(client: Client, engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    answer = client.select("SELECT * FROM orders EMIT CHANGES;")
    assert b"header" in answer.readline()
    assert not rows.is_closed.is_set()
    answer.close()
    assert rows.is_closed.wait(WAIT_S)


def test_a_client_that_reads_nothing_is_cut_off_and_holds_a_bounded_buffer(engine: ListedSql) -> None:
    wide = ChangedRow(("x" * 1000,))
    rows = engine.rows["orders"] = ListedRows([("text", "string")], [wide] * 100_000, is_live=True)
    with (
        served(engine, Sending(stalled_s=0.2)) as client,
        socket.socket() as lazy,
    ):
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.settimeout(WAIT_S)
        lazy.connect(("127.0.0.1", client.port))
        body = b'{"ksql": "SELECT * FROM orders EMIT CHANGES;"}'
        lazy.sendall(
            b"POST /query HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: %d\r\n\r\n%s"
            % (client.port, len(body), body)
        )
        assert rows.is_closed.wait(WAIT_S)
        # in the buffers of the two sockets, of the connection and of one read
        assert rows.rows_read < 20_000
        # the connection is cut before the end of the response
        received = bytearray()
        while part := lazy.recv(65_536):
            received += part
        assert not received.endswith(b"0\r\n\r\n")


def test_a_query_is_closed_by_its_id(engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    with served(engine, admit=viewer("carol")) as client:
        with closing(client.open("POST", "/query-stream", {"sql": "SELECT * FROM orders EMIT CHANGES;"})) as answer:
            query_id = json.loads(answer.readline())["queryId"]
            close = {"queryId": query_id}
            status, found = client.ask("POST", "/close-query", close, **{"x-name": "mallory"})
            assert (status, found["error_code"]) == (403, 40300)
            assert not rows.is_closed.is_set()
            assert client.ask("POST", "/close-query", close) == (200, None)
            assert answer.read() == b""
        assert rows.is_closed.wait(WAIT_S)
        status, found = client.ask("POST", "/close-query", close)
        assert (status, found["message"]) == (400, f"No query with id {query_id}")


def test_at_most_some_queries_send_rows_at_once(engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    with served(engine, Sending(most=1)) as client:
        assert client.ask("POST", "/query", {"ksql": "SELECT * FROM nothing;"})[0] == 400
        with closing(client.select("SELECT * FROM orders EMIT CHANGES;")) as first:
            first.readline()
            status, found = client.ask("POST", "/query", {"ksql": "SELECT * FROM orders;"})
            assert (status, found["error_code"]) == (429, 42900)
            rows.end()
            first.read()
        assert rows.is_closed.wait(WAIT_S)
        assert client.ask("POST", "/query", {"ksql": "SELECT * FROM orders;"})[0] == 200


def test_a_service_that_ends_ends_its_queries_with_a_sentence(engine: ListedSql) -> None:
    rows = engine.rows["orders"] = ListedRows([("id", "int")], is_live=True)
    with served(engine) as client:
        answer = client.select("SELECT * FROM orders EMIT CHANGES;", accept="application/x-ndjson")
        answer.readline()
    with closing(answer):
        assert json.loads(answer.read())["errorMessage"]["error_code"] == 50302
    assert rows.is_closed.wait(WAIT_S)


# --- inserts ---


@contextmanager
def inserting(client: Client) -> Iterator[tuple[socket.socket, Any]]:
    """A request to /inserts-stream that goes on, and its response."""
    with socket.create_connection(("127.0.0.1", client.port), WAIT_S) as connection:
        connection.sendall(b"POST /inserts-stream HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n")
        send_part(connection, b'{"target": "ORDERS"}\n')
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        yield connection, answer


def send_part(connection: socket.socket, data: bytes) -> None:
    connection.sendall(b"%x\r\n%s\r\n" % (len(data), data))


def lines(found: Sequence[bytes]) -> list[Any]:
    return [json.loads(line) for line in found]


def test_rows_are_acknowledged_while_more_come(client: Client, engine: ListedSql) -> None:
    client.ksql(ORDERS)
    with inserting(client) as (connection, answer):
        send_part(connection, b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n{"id"')
        assert lines([answer.readline(), answer.readline()]) == [
            {"status": "ok", "seq": 0},
            {"status": "ok", "seq": 1},
        ]
        send_part(connection, b": 3}\n\n")
        assert lines([answer.readline()]) == [{"status": "ok", "seq": 2}]
        send_part(connection, b'{"id": 4}')
        connection.sendall(b"0\r\n\r\n")
        assert lines(answer.read().splitlines()) == [{"status": "ok", "seq": 3}]
    assert [row[0] for row in engine.inserted] == [f"CAST('{number}' AS bigint)" for number in range(1, 5)]


def test_the_first_row_that_fails_ends_the_response(client: Client, engine: ListedSql) -> None:
    client.ksql(ORDERS)
    with inserting(client) as (connection, answer):
        send_part(connection, b'{"id": 1}\n{"id": "a"}\n{"id": 3}\n')
        found = lines(answer.read().splitlines())
    assert found == [
        {"status": "ok", "seq": 0},
        {"status": "error", "seq": 1, "error_code": 40000, "message": 'id is BIGINT, and the row gives "a"'},
    ]
    assert len(engine.inserted) == 1


def test_a_row_that_is_too_long_ends_the_response(client: Client, engine: ListedSql) -> None:
    client.ksql(ORDERS)
    with inserting(client) as (connection, answer):
        send_part(connection, b'{"name": "' + b"x" * MAX_LINE)
        found = lines(answer.read().splitlines())
    assert [one["error_code"] for one in found] == [41300]


def test_many_rows_are_written_in_few_inserts(client: Client, engine: ListedSql) -> None:
    client.ksql(ORDERS)
    body = b'{"target": "orders"}\n' + b"".join(b'{"id": %d}\n' % number for number in range(3000))
    with closing(client.open("POST", "/inserts-stream", body)) as answer:
        found = lines(answer.read().splitlines())
    assert found == [{"status": "ok", "seq": number} for number in range(3000)]
    assert len(engine.inserted) == 3000


@pytest.mark.parametrize("body", [b"", b"\n", b"{}", b'{"target": 1}\n', b'{"target": "nothing"}\n{"id": 1}\n'])
def test_inserts_into_nothing_are_rejected(client: Client, body: bytes) -> None:
    status, found = client.ask("POST", "/inserts-stream", body)
    assert (status, found["error_code"]) == (400, 40000)
