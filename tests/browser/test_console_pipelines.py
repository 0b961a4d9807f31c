"""Pipelines in the console of a cluster: groups and topics as pipelines leave them, and forged ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from moldau.products.pipelines.core.commit_metadata import PipelineMetadata, metadata_of
from tests.browser.conftest import ATTACK, WAIT_S, BrokerWithConsole, assert_nothing_ran, assert_shown, follow

Wait = Callable[[Chrome, str], None]

ROW = (
    "const row = [...document.querySelectorAll('#pipelines tbody tr')]"
    ".find((row) => row.cells[0].innerText === arguments[0]);"
    "return row === undefined ? null : [...row.cells].map((cell) => cell.innerText.trim())"
)
LINKS = "return [...document.querySelectorAll('main a')].map((link) => link.href)"


def commit(running: BrokerWithConsole, group: str, topic: str, offset: int, metadata: str = "") -> None:
    consumer = Consumer({"bootstrap.servers": running.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata)], asynchronous=False)
    consumer.close()


def log_end_offset(running: BrokerWithConsole, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": running.address, "group.id": "reads nothing"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.close()
    return end


def wait_for_cell(browser: Chrome, pipeline: str, number: int, text: str) -> list[str]:
    """Waits until a cell of the pipeline's row has this text; gives the row's cells."""

    def look(_: Chrome) -> list[str] | None:
        cells: list[str] | None = browser.execute_script(ROW, pipeline)
        return cells if cells is not None and cells[number] == text else None

    found: list[str] = WebDriverWait(browser, WAIT_S, 0.1).until(look, f"{pipeline} is {text} in cell {number}")
    return found


@pytest.fixture(scope="module")
def shop(running: BrokerWithConsole) -> BrokerWithConsole:
    """A pipeline that has read 4 of 10 orders on this machine and kept a dead letter; another that runs elsewhere."""
    running.produce("orders", *[(b"key", b'{"amount": 1}', {})] * 10)
    running.produce("shop.dead-letters", letter("amount is no number", 3))
    note = PipelineMetadata("shop.totals", socket.gethostname(), 9700)
    commit(running, "moldau.shop.totals", "orders", 4, metadata_of(7, note.text()))
    note = PipelineMetadata("audit", "another-machine", 9701, ("refused",))
    running.produce("refused", (None, b"x", {}), (None, b"x", {}))
    commit(running, "audits-own-group", "orders", 10, metadata_of(0, note.text()))
    commit(running, "readers", "orders", 5, "no note")
    return running


def letter(reason: str, offset: int) -> tuple[bytes | None, bytes | None, dict[str, bytes]]:
    headers = {"moldau.reason": reason, "moldau.topic": "orders", "moldau.partition": "0", "moldau.offset": str(offset)}
    return b"key", b'{"amount": "x"}', {name: value.encode() for name, value in headers.items()}


@pytest.mark.slow
def test_a_pipeline_is_found_beside_the_topics_and_goes_on_by_itself(
    shop: BrokerWithConsole, browser: Chrome, wait: Wait, tmp_path: Path
) -> None:
    browser.get(shop.page)
    follow(browser, "Pipelines")
    browser.execute_script("window.wasLoadedOnce = true")
    cells = wait_for_cell(browser, "shop.totals", 4, "6")
    assert cells[3] == "orders"
    assert cells[8:] == ["1", "port 9700"]
    assert browser.execute_script(ROW, "audit")[2] == "nothing to read"
    assert browser.execute_script(ROW, "audit")[8:] == ["2", "port 9701 of another-machine"]
    assert browser.execute_script(ROW, "readers") is None
    links = browser.execute_script(LINKS)
    assert [link for link in links if not link.startswith(shop.page)] == ["http://127.0.0.1:9700/"]

    shop.produce("orders", *[(b"key", b'{"amount": 1}', {})] * 90)
    shop.produce("shop.dead-letters", letter("amount is missing", 30))
    wait_for_cell(browser, "shop.totals", 4, "96")
    wait_for_cell(browser, "shop.totals", 8, "2")
    commit(shop, "moldau.shop.totals", "orders", 60)
    cells = wait_for_cell(browser, "shop.totals", 2, "reading")
    assert (cells[4], cells[9]) == ("40", "–")
    assert cells[7].endswith(" s ago")
    commit(shop, "moldau.shop.totals", "orders", 100)
    wait_for_cell(browser, "shop.totals", 2, "caught up")
    assert browser.execute_script("return window.wasLoadedOnce") is True
    assert browser.save_screenshot(str(tmp_path / "pipelines.png"))


def test_the_page_of_a_pipeline_has_its_picture_charts_and_newest_dead_letters(
    shop: BrokerWithConsole, browser: Chrome, wait: Wait, tmp_path: Path
) -> None:
    note = PipelineMetadata("shop.totals", socket.gethostname(), 9700)
    shop.produce("orders", *[(b"key", b'{"amount": 1}', {})] * 40)
    end = log_end_offset(shop, "orders")
    commit(shop, "moldau.shop.totals", "orders", end - 40, metadata_of(8, note.text()))
    browser.get(f"{shop.page}/pipelines/moldau.shop.totals")
    browser.execute_script("window.wasLoadedOnce = true")
    wait(browser, "amount is no number")
    wait(browser, "orders-0 @ 3")
    wait(browser, "40")
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('svg.plan .box')].map((box) => box.textContent)"
    )
    assert len(drawn) == 3
    shop.produce("shop.dead-letters", letter("came while it was looked at", 31))
    wait(browser, "came while it was looked at")
    commit(shop, "moldau.shop.totals", "orders", end - 30, metadata_of(9, note.text()))  # a chart of zeros is not drawn
    WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: len(browser.find_elements("css selector", "svg.chart")) == 2)
    assert browser.execute_script("return window.wasLoadedOnce") is True
    assert browser.save_screenshot(str(tmp_path / "pipeline.png"))
    follow(browser, "moldau.shop.totals")
    wait(browser, "Committed")
    browser.get(browser.execute_script("return document.querySelector('main h1 a.button').href"))
    wait(browser, "Newest dead letters")
    href = browser.execute_script("return document.querySelector('#dead-letters a').href")
    browser.get(href)
    wait(browser, "came while it was looked at")


def test_it_is_whole_without_javascript(shop: BrokerWithConsole, browser_without_script: Chrome) -> None:
    texts = (
        ("/", "Pipelines"),
        ("/pipelines", "shop.totals"),
        ("/pipelines/moldau.shop.totals", "Newest dead letters"),
        ("/pipelines/audits-own-group", "port 9701 of another-machine"),
        ("/pipelines/readers", "Pipeline not found"),
        ("/pipelines/moldau.nobody", "Pipeline not found"),
    )
    assert_shown(browser_without_script, shop.page, texts)


FORGED = [
    {"pipeline": ATTACK, "board_port": 9700},
    {"pipeline": "forged", "board_port": "javascript:document.title='taken over'"},
    {"pipeline": "forged", "board_port": "http://evil.example/"},
    {"pipeline": "forged", "board_port": 99_999},
    {"pipeline": "forged", "board_port": 9700, "host": f"{socket.gethostname()}/@evil.example"},
    {"pipeline": "forged", "board_port": 9700, "dead_letters": [ATTACK]},
]


@pytest.mark.slow
def test_what_others_commit_is_shown_as_text_and_no_address_is_taken_from_it(
    shop: BrokerWithConsole, browser: Chrome, wait: Wait, tmp_path: Path
) -> None:
    for number, note in enumerate(FORGED):
        metadata = json.dumps({"batch": 1, "note": json.dumps(note)})
        commit(shop, f"moldau.forged-{number}{ATTACK}", "orders", 1, metadata)
    for number, metadata in enumerate((ATTACK, "[" * 4_000, '{"batch": 1e999}', '{"batch": 1, "note": "{"}')):
        commit(shop, f"moldau.odd-{number}", "orders", 1, metadata)
    commit(shop, "moldau.", "orders", 1)
    shop.produce("shop.dead-letters", letter(ATTACK, 4))
    browser.get(f"{shop.page}/pipelines")
    wait(browser, f"forged-{len(FORGED) - 1}")
    wait(browser, "odd-3")
    assert_nothing_ran(browser)
    outside = [link for link in browser.execute_script(LINKS) if not link.startswith(f"{shop.page}/")]
    assert set(outside) <= {"http://127.0.0.1:9700/"}
    assert len(outside) <= 1  # that of the pipeline that is not forged
    assert browser.save_screenshot(str(tmp_path / "forged.png"))
    follow(browser, "forged-0")
    wait(browser, "Topics that it reads")
    assert_nothing_ran(browser)
    browser.get(f"{shop.page}/pipelines/moldau.shop.totals")
    wait(browser, "taken over")
    assert_nothing_ran(browser)
