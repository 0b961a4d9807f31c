"""The web console over three brokers: one dies, partitions lack a replica, and one moves to another broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from moldau.client.admin.reassignments import reassign
from moldau.client.admin.topics import create_topic
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_admin
from moldau.types import TopicPartition
from tests.browser.conftest import WAIT_S, page_of
from tests.support.cluster_of_three import NODE_IDS, PARTITIONS, TOPIC, cluster_of_three, moldau_command

Rows = dict[str, list[list[str]]]
"""The cells of each table of the page, by table id."""

READ_TABLES = (
    "return Object.fromEntries([...document.querySelectorAll('main table[id]')].map((table) => "
    "[table.id, [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))]))"
)


def wait_for(browser: Chrome, is_shown: Callable[[Rows], bool]) -> Rows:
    """Waits until the tables of the open page are like this. Reloads nothing: the page must update by itself."""
    seen: list[Rows] = []

    def look(_: Chrome) -> bool:
        seen.append(browser.execute_script(READ_TABLES))
        return is_shown(seen[-1])

    WebDriverWait(browser, 2 * WAIT_S, 0.2).until(look, f"the tables are {seen[-1:]}")
    assert browser.execute_script("return window.wasLoadedOnce") is True
    return seen[-1]


def states(rows: Rows) -> list[str]:
    return [row[3].split()[0] for row in rows.get("brokers", [])]


def behind(rows: Rows) -> list[list[str]]:
    """The partitions of the topic that lack a replica."""
    return [row for row in rows.get("behind", []) if row[0] == TOPIC]


def check_without_script(browser: Chrome, page: str) -> None:
    """Without script the page shows the same tables, and the dead broker's page says that no broker returned
    settings."""
    browser.get(f"{page}/brokers")
    shown = browser.find_element("tag name", "main").text
    for text in ("Fenced", "Under-replicated partitions", "Reassignments", "Metadata quorum"):
        assert text in shown
    browser.get(f"{page}/brokers/3")
    assert "it does not serve now" in browser.find_element("tag name", "main").text
    browser.get(f"{page}/brokers/4")
    assert "Broker not found" in browser.find_element("tag name", "main").text


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_dead_brokers_short_partitions_and_moves_appear_and_vanish_without_a_reload(
    tmp_path: Path, browser: Chrome, browser_without_script: Chrome
) -> None:
    with (
        cluster_of_three(tmp_path, dict.fromkeys(NODE_IDS, moldau_command)) as cluster,
        page_of(cluster.bootstrap_servers) as page,
    ):
        cluster.create_topic()
        cluster.produce("one", 100)
        with open_admin(ClusterAccess(cluster.bootstrap_servers, client_id="test")) as admin:
            create_topic(admin, "moved", assignment=[(1, 2)])
        cluster.wait_in_sync()
        browser.get(f"{page}/brokers")
        browser.execute_script("window.wasLoadedOnce = true")
        rows = wait_for(browser, lambda rows: states(rows) == ["Serving"] * 3)
        assert sorted(row[1] for row in rows["quorum"]) == ["follower", "follower", "leader"]
        assert not {"behind", "moves"} & rows.keys()

        cluster.kill(3)
        rows = wait_for(browser, lambda rows: len(behind(rows)) == PARTITIONS)
        assert states(rows) == ["Serving", "Serving", "Fenced"]
        assert [row[1] for row in behind(rows)] == [str(number) for number in range(PARTITIONS)]
        assert all("3" in row[3] and "3" not in row[4] for row in behind(rows))

        with open_admin(ClusterAccess(cluster.bootstrap_servers, client_id="test")) as admin:
            reassign(admin, {TopicPartition("moved", 0): (1, 3)})
        rows = wait_for(browser, lambda rows: "moves" in rows)
        assert rows["moves"] == [["moved", "0", "1, 3, 2", "3", "2"]]
        assert browser.save_screenshot(str(tmp_path / "brokers.png"))
        check_without_script(browser_without_script, page)

        cluster.start(3)
        wait_for(browser, lambda rows: states(rows) == ["Serving"] * 3 and not {"behind", "moves"} & rows.keys())
        browser.get(f"{page}/brokers/3")
        WebDriverWait(browser, WAIT_S).until(lambda _: "All " in browser.find_element("tag name", "main").text)
        browser.get(f"{page}/topics/moved")
        WebDriverWait(browser, WAIT_S).until(lambda _: "1, 3" in browser.find_element("tag name", "main").text)
