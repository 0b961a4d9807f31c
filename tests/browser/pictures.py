"""Draws the pictures of the README: `python -m tests.browser.pictures`, with chromium, in about a minute.

docs/pictures/console.png shows the console while the demo runs; docs/pictures/demo.svg shows the demo's own table.
"""

from __future__ import annotations

import io
import re
import tempfile
import threading
from pathlib import Path

from rich.console import Console, Group
from selenium.webdriver import Chrome

from moldau.client.protocol.access import ClusterAccess
from moldau.products.demo import display, job
from tests.browser.conftest import BrokerWithConsole, open_browser

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SECONDS = 40
DRAWN_AT_S = 30
WIDTH, HEIGHT = 1280, 800
COLUMNS = 120


class Sitter:
    """Keeps the demo's output once it has found anomalies and the console's charts have grown."""

    def __init__(self) -> None:
        self.is_due = threading.Event()
        self.svg = ""
        self._draw = display._draw
        display._draw = self._keep

    def _keep(self, view: display.DemoView, rate: float) -> Group:
        drawn = self._draw(view, rate)
        if len(view.alerts) >= 2 and view.elapsed > DRAWN_AT_S and not self.is_due.is_set():
            console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
            console.print(drawn)
            svg = console.export_svg(title="make demo")
            # without fonts of another host, which a picture may not load
            self.svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)
            self.is_due.set()
        return drawn


def draw() -> None:
    sitter = Sitter()
    running = BrokerWithConsole()
    browser = open_browser()
    browser.set_window_size(WIDTH, HEIGHT)
    browser.get(running.page)  # charts start with the first viewer
    with tempfile.TemporaryDirectory() as output:
        settings = job.DemoSettings(SECONDS, Path(output) / "demo", access=ClusterAccess(running.address))
        photographer = threading.Thread(target=lambda: sitter.is_due.wait(300) and photograph(browser))
        photographer.start()
        code = job.run(settings, Console(file=io.StringIO(), force_terminal=True, width=COLUMNS))
        photographer.join(60)
    browser.quit()
    running.broker.stop()
    if code or not sitter.svg:
        raise SystemExit(f"the demo ended with exit code {code}")
    (PICTURES / "demo.svg").write_text(sitter.svg, encoding="utf-8")


def photograph(browser: Chrome) -> None:
    browser.save_screenshot(str(PICTURES / "console.png"))


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw()
