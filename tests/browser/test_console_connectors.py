"""Connectors in the console: the list, a connector with its tasks, and what an editor does. A real worker runs them."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from moldau.products.console.connect_server import ConnectServer
from moldau.products.console.service import Console
from moldau.products.service.logins.opened import Opening
from moldau.products.service.serving import served_in_thread
from moldau.testing import Cluster
from tests.browser.conftest import ATTACK, WAIT_S, assert_nothing_ran
from tests.support.connect_workers import Rest
from tests.support.talking_process import TalkingProcess

Wait = Callable[[Chrome, str], None]
CELLS = "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => row.innerText)"
ROWS = {"connector.class": "datagen", "topic": "rows", "columns": "n INT", "rows.per.second": "20", "tasks.max": "1"}


@pytest.fixture(scope="module")
def worker() -> Iterator[tuple[str, Rest, Cluster]]:
    """The page of a console, the worker's REST interface, and the cluster of both."""
    with Cluster() as cluster:
        words = ["connect", "serve", "-b", cluster.bootstrap_servers, "--port", "0"]
        process = TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words])
        try:
            line = process.next_line(time.monotonic() + WAIT_S)
            assert line is not None, process.output
            rest = Rest(line.split()[1].rstrip("/"))
            rest.until("/health", lambda _: True)
            console = Console(cluster.access(), Opening(), connect=ConnectServer(("http://127.0.0.1:1", rest.url)))
            with socket.create_server(("127.0.0.1", 0)) as listening:
                listening.setblocking(False)
                with served_in_thread(console.service, console.app(), listening):
                    yield f"http://127.0.0.1:{listening.getsockname()[1]}", rest, cluster
            console.desks.close()
        finally:
            process.kill()


def wait_for_row(browser: Chrome, table: str, text: str) -> str:
    def found(_: object) -> str | None:
        return next((row for row in browser.execute_script(CELLS, table) if text in row), None)

    return WebDriverWait(browser, WAIT_S, 0.1).until(found, f"{text!r} in {table}")


def click(browser: Chrome, selector: str) -> None:
    """In one step: the page may renew its elements between two."""
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def test_a_connector_is_watched_and_paused(worker: tuple[str, Rest, Cluster], browser: Chrome, wait: Wait) -> None:
    page, rest, _ = worker
    browser.get(f"{page}/")
    browser.find_element("link text", "Connectors").click()
    wait(browser, "The worker has no connector")
    config = {**ROWS, "producer.override.sasl.password": "hunter2"}
    assert rest.settled("POST", "/connectors", {"name": "rows/ä", "config": config})[0] == 201
    row = wait_for_row(browser, "#connectors", "1 of 1")
    cells = row.split("\t")
    assert cells[:5] + cells[7:8] == ["rows/ä", "source", "running", "1 of 1", "–", "datagen"]

    browser.get(f"{page}/connectors/rows%2F%C3%A4")
    wait_for_row(browser, "#tasks", "running")
    wait_for_row(browser, "#offsets", "slot")
    assert "hunter2" not in browser.page_source
    assert wait_for_row(browser, "#config", "producer.override.sasl.password").endswith("[hidden]")
    click(browser, "button[value=pause]")
    wait_for_row(browser, "#tasks", "paused")
    click(browser, "button[value=resume]")
    wait_for_row(browser, "#tasks", "running")


def test_an_error_is_shown_as_text(worker: tuple[str, Rest, Cluster], browser: Chrome, wait: Wait) -> None:
    page, rest, _ = worker
    wrong = {**ROWS, "producer.override.linger.ms": "soon"}
    assert rest.settled("POST", "/connectors", {"name": ATTACK, "config": wrong})[0] == 201
    browser.get(f"{page}/connectors")
    row = wait_for_row(browser, "#connectors", "failed")
    assert row.startswith("<img")
    assert "Invalid value for configuration property" in row
    browser.get(f"{page}/connectors/nothing")
    wait(browser, "The connector is not shown")
    assert_nothing_ran(browser)


def test_how_far_a_sink_is_and_at_which_record_it_failed(
    worker: tuple[str, Rest, Cluster], browser: Chrome, tmp_path: Path
) -> None:
    page, rest, cluster = worker
    cluster.create_topic("lines", partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for text in ('"one"', '"two"', "no json"):
        producer.produce("lines", text)
    assert producer.flush(WAIT_S) == 0
    sink = {"connector.class": "FileStreamSink", "topics": "lines", "file": str(tmp_path / "out")}
    sink |= {"value.converter": "json", "value.converter.schemas.enable": "false"}
    letters = {"topic.name": "bad", "topic.replication.factor": "1", "context.headers.enable": "true"}
    tolerant = {"errors.tolerance": "all", **{f"errors.deadletterqueue.{name}": text for name, text in letters.items()}}
    assert rest.settled("POST", "/connectors", {"name": "strict", "config": sink})[0] == 201
    tolerant = {**sink, **tolerant, "file": str(tmp_path / "others")}
    assert rest.settled("POST", "/connectors", {"name": "tolerant", "config": tolerant})[0] == 201

    browser.get(f"{page}/connectors/strict")
    assert "in stage VALUE_CONVERTER of " in (row := wait_for_row(browser, "#tasks", "failed"))
    assert "at lines-0 offset 2" in row
    browser.get(f"{page}/connectors/tolerant")
    assert wait_for_row(browser, "#dead-letters", "VALUE_CONVERTER: ").split("\t")[2] == "lines-0 @ 2"
    wait_for_row(browser, "#tasks", "MiB")
    cells = WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: _caught_up(browser))
    assert (cells[1], cells[5]) == ("running", "0")


def _caught_up(browser: Chrome) -> list[str] | None:
    """The cells of the task, when it has read the topic."""
    cells = wait_for_row(browser, "#tasks", "MiB").split("\t")
    return cells if cells[3] == "3" else None
