"""A broker with its web console, as `moldau up` runs them, and a headless Chromium.

Uses Debian's `chromium` and `chromium-driver`; CHROMIUM and CHROMEDRIVER name other places.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.running_broker import RunningBroker
from tests.support.talking_process import TalkingProcess

WAIT_S = 30
ATTACK = "<img src=x onerror='document.title=\"taken over\"'><script>document.title='taken over'</script>"


class BrokerWithConsole:
    """`page`: the console address that `moldau up` printed, without the trailing slash."""

    def __init__(self, *arguments: str) -> None:
        self.broker = RunningBroker(
            "--in-memory", "--listen", "127.0.0.1:0", "--console-port", "0", *arguments
        ).wait_until_ready()
        self.address = self.broker.address
        lines = [line.split() for line in self.broker.output]
        self.page = next(words[1] for words in lines if words and words[0] == "console").rstrip("/")

    def produce(self, topic: str, *records: tuple[bytes | None, bytes | None, dict[str, bytes]]) -> None:
        """Writes each (key, value, headers); waits until all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.address})
        for key, value, headers in records:
            producer.produce(topic, value=value, key=key, headers=list(headers.items()))
        assert producer.flush(WAIT_S) == 0


@contextmanager
def page_of(bootstrap_servers: str) -> Iterator[str]:
    process = TalkingProcess(
        [sys.executable, "-m", "moldau.cli.main", "console", "-b", bootstrap_servers, "--port", "0"]
    )
    try:
        line = process.next_line(time.monotonic() + WAIT_S)
        assert line is not None, process.output
        yield line.split()[1].rstrip("/")
    finally:
        process.kill()


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerWithConsole]:
    running = BrokerWithConsole()
    yield running
    assert running.broker.stop() == 0
    assert "Traceback" not in "".join(running.broker.output)


def open_browser(*, has_script: bool = True) -> Chrome:
    options = ChromeOptions()
    options.binary_location = os.environ.get("CHROMIUM") or shutil.which("chromium") or "chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1000"):
        options.add_argument(argument)
    if not has_script:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver") or "chromedriver"
    return Chrome(options=options, service=Service(driver))


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    browser = open_browser()
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def browser_without_script() -> Iterator[Chrome]:
    browser = open_browser(has_script=False)
    yield browser
    browser.quit()


@pytest.fixture
def wait() -> Callable[[Chrome, str], None]:
    """Waits until the page shows a text, without a reload."""

    def wait_for(browser: Chrome, text: str) -> None:
        WebDriverWait(browser, WAIT_S, 0.1).until(
            lambda _: text in browser.execute_script("return document.body.innerText"),
            f"{text!r} did not appear on {browser.current_url}",
        )

    return wait_for


def follow(browser: Chrome, text: str) -> None:
    """Opens the first link with `text`, in one step: updates replace the elements of the page."""
    href = browser.execute_script(
        "return [...document.links].find((link) => link.innerText.includes(arguments[0])).href", text
    )
    browser.get(href)


def assert_shown(browser: Chrome, page: str, texts: Iterable[tuple[str, str]]) -> None:
    """Each (path, text): the page at that path shows the text."""
    for path, text in texts:
        browser.get(page + path)
        assert text in browser.find_element("tag name", "body").text


def assert_nothing_ran(browser: Chrome) -> None:
    assert browser.title != "taken over"
    assert not browser.find_elements("css selector", "main img, main script")
