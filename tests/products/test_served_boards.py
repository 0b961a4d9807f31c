"""The addresses of the boards of a served directory, and access to them."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
import time
import urllib.error
from pathlib import Path

import pytest

from moldau.cli.main import main
from moldau.cli.pipelines.pipeline import command_with
from moldau.products.pipelines.serving.boards import LAST_PORT, Boards
from moldau.products.pipelines.serving.directory import Finding
from moldau.products.pipelines.serving.supervisor import ServedPipeline, take
from moldau.products.service.logins.opened import LINES
from moldau.testing.cluster import Cluster
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.talking_process import TalkingProcess
from tests.support.web_console import WebBrowser

WAIT_S = 120
USERS = {name: f"{name}-secret" for name in ("alice", "pipeline")}
PEOPLE = """
[roles]
viewer = ["alice"]
[tls]
ssl.keystore.type = "PEM"
ssl.keystore.location = "server.pem"
"""
A, B, C = (Path(f"pages/{name}.yaml") for name in "abc")


def ports(boards: Boards, *files: Path) -> list[str]:
    return [boards.words(file)[1].rpartition(":")[2] for file in files]


def test_each_pipeline_has_a_port_of_its_own_and_keeps_it_until_its_file_is_gone() -> None:
    boards = Boards("0.0.0.0", 4040, "https", ["--login", "people.toml"])
    assert boards.words(A) == ["--listen", "0.0.0.0:4040", "--login", "people.toml"]
    assert ports(boards, B, A, C) == ["4041", "4040", "4042"]
    boards.leave(A)
    assert ports(boards, B, C, Path("new.yaml"), A) == ["4041", "4042", "4040", "4043"]
    assert boards.address(C) == "https://0.0.0.0:4042/"


@pytest.mark.asyncio
async def test_the_port_of_a_pipeline_is_free_once_its_file_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    boards = Boards("127.0.0.1", 4040)
    assert ports(boards, A, B) == ["4040", "4041"]
    await take(ServedPipeline(A, asyncio.Lock(), command_with(()), boards), Finding(A, refusal="it has a mistake"))
    assert ports(boards, C) == ["4042"]
    await take(ServedPipeline(A, asyncio.Lock(), command_with(()), boards), Finding(A))
    assert ports(boards, Path("new.yaml")) == ["4040"]
    assert capsys.readouterr().out.splitlines()[-1] == "a.yaml: is gone, and has stopped"


def test_a_port_of_0_and_one_behind_the_last_are_free_ones() -> None:
    assert ports(Boards("127.0.0.1", 0), A, B) == ["0", "0"]
    assert Boards("127.0.0.1", 0).address(A) is None
    assert ports(Boards("::1", LAST_PORT), A, B, A) == [str(LAST_PORT), "0", str(LAST_PORT)]
    assert Boards("::1", 1).words(A) == ["--listen", "[::1]:1"]


def test_boards_that_would_be_open_to_all_are_refused_before_a_pipeline_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = tmp_path / "people.toml"
    people.write_text('[roles]\nviewer = ["*"]\n')
    people.chmod(0o600)
    for words, missing in (([], "logins and TLS"), (["--login", str(people)], "TLS")):
        assert main(["pipeline", "serve", str(tmp_path), "--listen", "0.0.0.0:0", *words]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert f"has no {missing}. This mends it:\n{LINES}" in told.err
    assert main(["pipeline", "serve", str(tmp_path), "--login", str(people)]) == 1
    assert "add --boards, or --listen HOST:PORT" in capsys.readouterr().err


@pytest.mark.slow
def test_a_served_pipeline_has_a_board_with_a_login(tmp_path: Path) -> None:
    """The board exists before Spark has started."""
    (tmp_path / "pages").mkdir()
    ca = authority()
    ca.issue("CN=board").write(tmp_path, "server")
    people = tmp_path / "people.toml"
    people.write_text(PEOPLE)
    people.chmod(0o600)
    with Cluster(security="sasl_plaintext", users=USERS) as cluster, held_port() as held:
        topic = cluster.topic()
        properties = cluster.client_properties("pipeline")
        properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(USERS["pipeline"], "${PASSWORD}")
        lines = "".join(f"  {name}: '{text}'\n" for name, text in properties.items())
        spec = f"name: shop\ncluster:\n{lines}source: {{topic: {topic}, format: string}}\n"
        (tmp_path / "pages" / "shop.yaml").write_text(f"{spec}sql: select value from source\nsink: {{path: out}}\n")
        directory = str(tmp_path / "pages")
        words = ["pipeline", "serve", directory, "--listen", f"127.0.0.1:{port_of(held)}", "--login", str(people)]
        process = TalkingProcess([sys.executable, "-m", "moldau.cli.main", *words], {"PASSWORD": USERS["pipeline"]})
        try:
            line = process.next_line(time.monotonic() + WAIT_S)
            address = f"https://127.0.0.1:{port_of(held)}"
            assert line == f"shop.yaml: runs shop: shop; board {address}/"
            browser = WebBrowser(address, ssl.create_default_context(cadata=ca.pem))

            def is_there() -> bool:
                try:
                    return "shop" not in browser.get("/")[1] and browser.url.startswith(f"{address}/login")
                except urllib.error.URLError:
                    return False

            cluster.wait_for(is_there, timeout=WAIT_S)
            assert browser.get("/status.json", accept="text/plain")[0] == 401
            status, markup = browser.log_in("alice", "alice-secret")
            assert (status, browser.url) == (200, f"{address}/")
            assert re.search("<h1[^>]*>.*shop", markup, re.DOTALL)
            assert "acts as User:pipeline" in markup
            process.terminate()
            assert process.live_on(WAIT_S) == 0, process.output
        finally:
            process.kill()
