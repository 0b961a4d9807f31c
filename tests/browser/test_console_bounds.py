"""Access to the web console, its limit of viewers, and the end of its process with the broker's."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver.support.ui import WebDriverWait

from moldau.client.admin.groups import commit
from moldau.client.protocol.access import ClusterAccess
from moldau.products.service.service import MAX_STREAMS
from moldau.transport.access import open_admin
from moldau.types import TopicPartition
from tests.browser.conftest import WAIT_S, BrokerWithConsole
from tests.support.running_broker import RunningBroker


def get(page: str, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers, body; header names have - for _."""
    address = page.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    body = "" if "event-stream" in found.get("content-type", "") else response.read().decode()
    connection.close()
    return response.status, found, body


def first_update(page: str, path: str) -> str:
    """The markup of the first update that the page at `path` gets."""
    with urllib.request.urlopen(f"{page}/live?path={quote(path, safe='')}", timeout=WAIT_S) as stream:
        line = next(line for line in stream if line.startswith(b"data: "))
    markup: str = json.loads(line.removeprefix(b"data: "))
    return markup


def test_a_page_elsewhere_cannot_read_it_under_a_name_of_its_own(running: BrokerWithConsole) -> None:
    port = running.page.rpartition(":")[2]
    for host in (f"evil.example:{port}", "169.254.1.1", f"127.0.0.1.evil.example:{port}", ""):
        assert get(running.page, "/", Host=host)[0] == 403
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert get(running.page, "/", Host=host)[0] == 200


def test_other_sites_get_no_stream(running: BrokerWithConsole) -> None:
    assert get(running.page, "/live?path=/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403


def test_nothing_may_be_loaded_from_elsewhere_or_written_inline(running: BrokerWithConsole) -> None:
    _, headers, body = get(running.page, "/")
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http://" not in body.replace(running.page, "").replace(running.address, "")
    assert "<style" not in body
    assert "<script>" not in body


@pytest.fixture(scope="module")
def wide(running: BrokerWithConsole) -> str:
    """A topic of 300 partitions."""
    admin = AdminClient({"bootstrap.servers": running.address})
    admin.create_topics([NewTopic("wide", 300, 1)])["wide"].result(WAIT_S)
    return "wide"


@pytest.mark.usefixtures("wide")
def test_the_partition_that_is_named_is_read_and_the_page_says_what_is_not(running: BrokerWithConsole) -> None:
    producer = Producer({"bootstrap.servers": running.address})
    producer.produce("wide", b"far away", partition=250)
    assert producer.flush(WAIT_S) == 0
    _, _, named = get(running.page, "/topics/wide/records?partition=250")
    assert "far away" in named
    assert "were not read" not in named
    _, _, first = get(running.page, "/topics/wide/records")
    assert "100 partitions were not read" in first
    assert "far away" not in first
    assert (
        "the topic has no partition 300: its last one is 299"
        in get(running.page, "/topics/wide/records?partition=300")[2]
    )
    assert "The last 100 partitions are not shown here" in get(running.page, "/topics/wide/tail")[2]


def test_a_group_is_updated_under_the_address_of_its_page(running: BrokerWithConsole, wide: str) -> None:
    with open_admin(ClusterAccess(running.address, client_id="test", request_timeout_ms=10_000)) as admin:
        for group in ("a%41", "aA"):
            commit(admin, group, {TopicPartition(wide, 0): 0})
    assert 'data-live="/groups/a%2541"' in get(running.page, "/groups/a%2541")[2]


def test_the_page_of_a_group_with_a_long_id_stays_that_of_this_group() -> None:
    running = BrokerWithConsole()  # its own console: a stream counts as a viewer for a moment after its end
    group = "řeka" * 150  # an address of more than 1,000 characters
    maker = AdminClient({"bootstrap.servers": running.address})
    maker.create_topics([NewTopic("long", 1, 1)])["long"].result(WAIT_S)
    with open_admin(ClusterAccess(running.address, client_id="test", request_timeout_ms=10_000)) as admin:
        commit(admin, group, {TopicPartition("long", 0): 0})
    sent = f"/groups/{quote(group)}"
    assert f'data-live="{sent}"' in get(running.page, sent)[2]
    assert group in first_update(running.page, sent)
    assert running.broker.stop() == 0


def test_the_id_of_a_group_may_hold_a_line_break(running: BrokerWithConsole, wide: str) -> None:
    with open_admin(ClusterAccess(running.address, client_id="test", request_timeout_ms=10_000)) as admin:
        commit(admin, "a\nb", {TopicPartition(wide, 0): 0})
    status, _, body = get(running.page, "/groups/a%0Ab")
    assert status == 200
    assert wide in body


def test_a_path_with_more_fields_than_a_page_has_is_no_page(running: BrokerWithConsole) -> None:
    path = "%2Ftopics%3F" + "%26".join(f"f{number}%3D1" for number in range(20))
    assert get(running.page, f"/live?path={path}")[0] == 404


def test_it_takes_reads_only(running: BrokerWithConsole) -> None:
    connection = http.client.HTTPConnection(running.page.removeprefix("http://"), timeout=WAIT_S)
    connection.request("POST", "/topics", body=b"name=made")
    assert connection.getresponse().status == 405
    connection.close()


def test_one_viewer_too_many_is_told_so(running: BrokerWithConsole) -> None:
    host, _, port = running.page.removeprefix("http://").partition(":")
    watching = []
    try:
        for _ in range(MAX_STREAMS):
            stream = socket.create_connection((host, int(port)), timeout=WAIT_S)
            watching.append(stream)
            stream.sendall(f"GET /live?path=/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            assert b" 200 " in stream.recv(15)
        assert get(running.page, "/live?path=/")[0] == 503
        assert get(running.page, "/topics")[0] == 200
    finally:
        for stream in watching:
            stream.close()


def child_of(process_id: int) -> int:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text("ascii").split()
    return int(children[0])


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_its_process_ends_with_the_brokers(how: signal.Signals) -> None:
    running = BrokerWithConsole()
    process_id = running.broker.process.pid
    assert Path(f"/proc/{process_id}/task/{process_id}/children").read_text("ascii") == ""
    assert get(running.page, "/")[0] == 200
    child = child_of(process_id)
    if how is signal.SIGKILL:
        running.broker.kill()
    else:
        assert running.broker.stop() == 0
    WebDriverWait(running, WAIT_S, 0.05).until(lambda _: is_gone(child), "the page outlived its broker")


def test_a_viewer_after_its_process_died_gets_another_one() -> None:
    running = BrokerWithConsole()
    assert get(running.page, "/")[0] == 200
    child = child_of(running.broker.process.pid)
    os.kill(child, signal.SIGKILL)
    assert get(running.page, "/")[0] == 200
    assert child_of(running.broker.process.pid) != child
    assert running.broker.stop() == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_without_an_error_while_somebody_looks(
    running: BrokerWithConsole, how: signal.Signals
) -> None:
    command = RunningBroker("-b", running.address, "--port", "0", command="console")
    command.wait_until_told("http://")
    address = command.output[0].split()[1].removeprefix("http://").rstrip("/")
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as stream:
        stream.sendall(f"GET /live?path=/ HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        received = b""
        while b"event: main" not in received:
            received += stream.recv(1 << 16)
        command.process.send_signal(how)
        assert command.wait_until_ended() == 0
    assert len(command.output) == 1, command.output


def is_gone(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_no_page_opens_no_port() -> None:
    broker = RunningBroker("--in-memory", "--listen", "127.0.0.1:0", "--no-console").wait_until_ready()
    assert not any(line.split()[:1] == ["console"] for line in broker.output)
    assert broker.stop() == 0
