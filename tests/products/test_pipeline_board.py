"""The plan of a pipeline as a picture, and the board of a run, which shows the given state. Without Spark."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from msgspec.structs import replace

from moldau.cli.main import main
from moldau.errors import MoldauError
from moldau.products.pipelines.core.commit_metadata import BoardPlace
from moldau.products.pipelines.looking.board.board import Board
from moldau.products.pipelines.looking.board.state import MOST_ERRORS, BoardState
from moldau.products.pipelines.looking.picture import boxes_and_edges
from moldau.products.pipelines.spec.spec import PipelineSpec, parse_spec
from moldau.products.service.logins.opened import Opening, read_opening
from moldau.products.service.look.plan import BOX_HEIGHT, BOX_WIDTH, Box, Edge, draw_plan
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import QueryState
from moldau.testing.cluster import Cluster
from moldau.transport.service_tls import ServiceTls
from tests.support.certificates import authority
from tests.support.web_console import WebBrowser, token_in

SPEC = """
name: shop
bootstrap_servers: 127.0.0.1:9092
sources:
  orders: {topic: orders, format: json, schema: "user string, amount double, at timestamp", event_time: at,
           watermark: 10 seconds}
  returns: {topic: returns, format: json, schema: "user string, amount double, at timestamp"}
flows:
  big: select * from orders where amount > 100
  sums: "select window.start as minute, sum(amount) as amount from big group by window(at, '1 minute')"
  both: select big.user from big join returns on big.user = returns.user
targets:
  lake: {from: big, path: out/big}
  minutes: {from: sums, topic: minutes, mode: update}
  pairs: {from: both, topic: "pairs"}
"""


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    return parse_spec(SPEC, file_name="shop.yaml", directory=tmp_path)


def state(name: str, *, read: int = 0, lag: int | None = 0, trouble: str | None = None) -> SupervisedState:
    return SupervisedState(f"shop.{name}", 1, read, lag, 250, "waiting" if trouble else "running", 3, trouble)


def get(board: Board, path: str, **headers: str) -> tuple[int, str]:
    try:
        request = urllib.request.Request(f"{board.address}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def boxes_of(svg: str) -> dict[str, tuple[float, float]]:
    """The upper left corner of each box, by its tooltip's second word."""
    found = {}
    for group in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        title = group.findtext("{http://www.w3.org/2000/svg}title", "").split()[1].rstrip(":")
        rectangle = group.find("{http://www.w3.org/2000/svg}rect")
        assert rectangle is not None
        found[title] = float(rectangle.get("x", "")), float(rectangle.get("y", ""))
    return found


def test_a_board_that_ends_while_somebody_looks_ends_the_stream_without_an_error(
    spec: PipelineSpec, capfd: pytest.CaptureFixture[str]
) -> None:
    with Board(spec, 0) as board:
        stream = urllib.request.urlopen(f"{board.address}live", timeout=60)
        assert b"event: main\n" in [stream.readline() for _ in range(4)]
    with stream:
        stream.read()
    assert capfd.readouterr().err == ""


def test_a_board_over_tls_ends_without_an_error_while_a_browser_keeps_its_connection(
    spec: PipelineSpec, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = authority().issue("CN=board").write(tmp_path, "server")
    tls = ServiceTls({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    context = ssl.create_default_context(cadata=authority().pem)
    with Board(spec, 0, opening=Opening(tls=tls)) as board:
        kept = http.client.HTTPSConnection("127.0.0.1", board.port, timeout=60, context=context)
        kept.request("GET", "/status.json")
        assert kept.getresponse().read()
    kept.close()
    assert capfd.readouterr().err == ""


def test_the_notes_of_lines_that_end_in_one_box_do_not_lie_on_each_other() -> None:
    boxes = [Box("a", "source"), Box("b", "source"), Box("c", "flow"), Box("d", "target")]
    drawn = draw_plan(boxes, [Edge(0, 2, "12/s"), Edge(1, 2, "34/s"), Edge(2, 3, "46/s")])
    texts = ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}text")
    assert [text.text for text in texts] == ["12/s", "34/s", "46/s"]
    assert len({text.get("y") for text in texts[:2]}) == 2
    assert [text.get("text-anchor") for text in texts] == [None, None, "end"]


def test_each_step_stands_right_of_what_it_reads_and_targets_stand_together(spec: PipelineSpec) -> None:
    boxes, edges = boxes_and_edges(spec)
    spots = boxes_of(draw_plan(boxes, edges))
    assert set(spots) == {box.name for box in boxes}
    for edge in edges:
        assert spots[boxes[edge.start].name][0] < spots[boxes[edge.end].name][0]
    assert len({spots[name][0] for name in ("lake", "minutes", "pairs")}) == 1
    assert len(set(spots.values())) == len(boxes)


def test_no_line_crosses_a_box(spec: PipelineSpec) -> None:
    svg = draw_plan(*boxes_and_edges(spec))
    corners = boxes_of(svg).values()
    for straight in re.findall(r"([\d.]+),([\d.]+) L([\d.]+),", svg):
        left, height, right = map(float, straight)
        assert not any(x < right and left < x + BOX_WIDTH and y < height < y + BOX_HEIGHT for x, y in corners)


def test_foreign_text_stays_text_in_the_picture(tmp_path: Path) -> None:
    text = SPEC.replace("topic: minutes", "topic: 'a<script>&'")
    with pytest.raises(MoldauError):  # not a valid topic name
        parse_spec(text, file_name="shop.yaml", directory=tmp_path)
    spec = parse_spec(SPEC.replace("path: out/big", "path: 'out/<b>&\"'"), file_name="s.yaml", directory=tmp_path)
    svg = draw_plan(*boxes_and_edges(spec), style="text {}")
    assert "<b>" not in svg
    ElementTree.fromstring(svg)


def test_graph_writes_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.yaml").write_text(SPEC)
    assert main(["pipeline", "graph", str(tmp_path / "shop.yaml"), "--svg", str(tmp_path / "shop.svg")]) == 0
    assert "shop.svg is written" in capsys.readouterr().out
    assert "lake" in boxes_of((tmp_path / "shop.svg").read_text())


def test_the_board_shows_the_slowest_query_first_and_what_troubles_one(spec: PipelineSpec) -> None:
    with Board(spec, 0) as board:
        board.show([state("lake", read=7), state("minutes", lag=90), state("pairs", trouble="no <such> column")])
        code, markup = get(board, "")
        status = json.loads(get(board, "status.json")[1])
    assert code == 200
    assert [query["name"] for query in status["queries"]] == ["shop.minutes", "shop.lake", "shop.pairs"]
    assert [(each["query"], each["reason"]) for each in status["troubles"]] == [("shop.pairs", "no <such> column")]
    assert markup.index("<td>shop.minutes</td>") < markup.index("<td>shop.lake</td>")
    assert "no &lt;such&gt; column" in markup
    assert 'class="box target trouble"' in markup
    assert "running, lag 90" in markup


def test_the_lag_of_all_queries_is_not_known_where_that_of_one_is_not(spec: PipelineSpec) -> None:
    with Board(spec, 0) as board:
        board.show([state("lake", lag=90), state("minutes", lag=None)])
        _, unknown = get(board, "")
        board.show([state("lake", lag=90), state("minutes", lag=5)])
        _, known = get(board, "")
    assert [re.findall("<dt>Lag</dt><dd[^>]*>([^<]*)", markup) for markup in (unknown, known)] == [["–"], ["95"]]


def test_the_board_answers_this_machine_only_and_names_no_other_pipeline(spec: PipelineSpec) -> None:
    with Board(spec, 0) as board:
        assert get(board, "", Host="example.com")[0] == 403
        assert get(board, "other")[0] == 404
        assert get(board, "static/style.css")[0] == 200
        assert 'moldau_service_responses_total{service="pipeline",status="403"} 1' in get(board, "metrics")[1]


def test_a_port_that_is_taken_is_said_in_a_sentence(spec: PipelineSpec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MoldauError, match=rf"127\.0\.0\.1:{port} cannot serve the board: Address already in use$"):
            Board(spec, port)


@pytest.mark.parametrize(("host", "has_place"), [("127.0.0.1", True), ("localhost", True), ("127.0.0.2", False)])
def test_a_board_tells_its_place_where_the_loopback_leads_to_it(spec: PipelineSpec, host: str, has_place: bool) -> None:
    with Board(spec, 0, host) as board:
        assert board.place == (BoardPlace(board.port) if has_place else None)


def test_a_trouble_is_noted_when_it_begins_and_their_number_is_bounded(spec: PipelineSpec) -> None:
    board = BoardState(spec)
    for number in range(MOST_ERRORS + 3):
        for trouble in (f"trouble {number}", f"trouble {number}", None):
            board.note([state("lake", trouble=trouble)])
    assert [each.reason for each in board.troubles()] == [
        f"trouble {number}" for number in reversed(range(3, MOST_ERRORS + 3))
    ]


def test_the_metrics_give_no_rate_to_a_query_that_does_not_run(spec: PipelineSpec) -> None:
    report = QueryState("shop.lake", batch_id=4, batches=5, input_rate=20.0, processed_rate=30.0)
    rate = re.compile(r"^moldau_spark_query_(?:input|processed)_records_per_second\S* (\S+)$", re.MULTILINE)
    with Board(spec, 0) as board:
        for trouble, expected in ((None, [20.0, 30.0]), ("away", [0.0, 0.0])):
            board.show([replace(state("lake", trouble=trouble), report=report)])
            _, metrics = get(board, "metrics")
            assert [float(found) for found in rate.findall(metrics)] == expected
            assert 'moldau_spark_query_batches_total{query="shop.lake"} 5' in metrics


def test_the_stream_tells_what_is_new(spec: PipelineSpec) -> None:
    with Board(spec, 0) as board:
        board.show([state("lake", read=7)])
        with urllib.request.urlopen(f"{board.address}live", timeout=60) as stream:
            lines = iter(stream.readline, b"")
            first = next(line for line in lines if line.startswith(b"data: "))
            board.show([state("lake", read=7, trouble="away")])
            second = next(line for line in lines if line.startswith(b"data: "))
    assert "away" not in json.loads(first.removeprefix(b"data: "))
    assert "away" in json.loads(second.removeprefix(b"data: "))


def test_a_board_with_logins_shows_the_run_to_who_has_a_role(spec: PipelineSpec, tmp_path: Path) -> None:
    people = tmp_path / "people.toml"
    people.write_text('[roles]\nviewer = ["alice"]\n')
    people.chmod(0o600)
    users = {name: f"{name}-secret" for name in ("alice", "bob", "pipeline")}
    with Cluster(security="sasl_plaintext", users=users) as cluster:
        secured = replace(spec, access=cluster.access("pipeline"))
        with Board(secured, 0, opening=read_opening("127.0.0.1", people)) as board:
            browser = WebBrowser(board.address.rstrip("/"))
            assert "shop.lake" not in browser.get("/")[1]
            assert get(board, "status.json")[0] == get(board, "live")[0] == get(board, "metrics")[0] == 401
            assert browser.log_in("bob", "bob-secret")[0] == 403
            status, markup = browser.log_in("alice", "alice-secret")
            assert (status, browser.url) == (200, board.address)
            assert "acts as User:pipeline" in markup
            assert browser.get("/status.json")[0] == 200
            with browser.stream("/live") as stream:
                assert any(line == b"event: main\n" for line in iter(stream.readline, b""))
                assert browser.post("/logout", {"csrf": token_in(markup)})[0] == 200
                board.show([state("lake", trouble="told after the log-out")])
                assert not any(b"told after" in line for line in iter(stream.readline, b""))
            assert browser.get("/status.json", accept="text/plain")[0] == 401
