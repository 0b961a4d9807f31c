"""The web console in a real browser: what it shows, that it updates by itself, and that data never becomes markup."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import ATTACK, WAIT_S, BrokerWithConsole, assert_nothing_ran, assert_shown, follow, page_of

Wait = Callable[[Chrome, str], None]


def create(running: BrokerWithConsole, topic: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": running.address})
    for future in admin.create_topics([topic]).values():
        future.result(30)


def commit_as_consumer(running: BrokerWithConsole, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": running.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.mark.slow
def test_it_shows_a_topic_with_its_partitions_and_what_is_set(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("invoices", 3, config={"retention.ms": "86400000"}))
    running.produce("invoices", *[(None, b"one", {})] * 7)
    browser.get(f"{running.page}/topics")
    wait(browser, "invoices")
    follow(browser, "invoices")
    wait(browser, "Partitions")
    cells = browser.execute_script(
        "return [...document.querySelectorAll('main > table tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    assert [row[0] for row in cells] == ["0", "1", "2"]
    assert sum(int(row[6]) for row in cells) == 7
    wait(browser, "retention.ms")
    wait(browser, "86400000")


@pytest.mark.slow
def test_a_chart_is_drawn_once_there_is_anything_but_zeros(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("still-empty", 1))
    browser.get(f"{running.page}/topics/still-empty")
    wait(browser, "nothing but 0 in the last ")
    assert browser.find_elements("css selector", "svg.chart") == []
    running.produce("still-empty", (None, b"one", {}))
    wait(browser, "s ago")
    assert len(browser.find_elements("css selector", "svg.chart")) == 1


def test_records_are_headed_by_the_name_of_their_topic(running: BrokerWithConsole, browser: Chrome) -> None:
    create(running, NewTopic("headed", 1))
    running.produce("headed", (None, b"one", {}))
    for path, heading in (("records", "Records of headed"), ("tail", "Live tail of headed")):
        browser.get(f"{running.page}/topics/headed/{path}")
        assert browser.find_element("css selector", "h1").text.splitlines()[0] == heading


def test_a_topic_made_meanwhile_appears_by_itself(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    browser.get(f"{running.page}/topics")
    create(running, NewTopic("made-meanwhile", 1))
    wait(browser, "made-meanwhile")


def test_a_narrow_window_scrolls_no_page_sideways(running: BrokerWithConsole, browser: Chrome) -> None:
    narrow = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        with page_of(",".join([running.address] * 3)) as page:
            browser.get(f"{page}/brokers")
            assert running.address in browser.find_element("css selector", ".cluster").text
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_is_not_served_stands_apart_from_the_table_above(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    browser.get(f"{running.page}/brokers")
    wait(browser, "This cluster does not serve")
    gap = """const note = document.querySelector("p.nothing"), above = note.previousElementSibling;
        return note.getBoundingClientRect().top - above.getBoundingClientRect().bottom"""
    assert browser.execute_script(gap) >= 8


def test_the_fields_of_the_search_stand_in_one_line(running: BrokerWithConsole, browser: Chrome) -> None:
    running.produce("aligned", (None, b"one", {}))
    browser.get(f"{running.page}/topics/aligned/records")
    tops = """return [...document.querySelectorAll(".browse label")].map((each) => each.getBoundingClientRect().top)"""
    assert len(set(browser.execute_script(tops))) == 1


def test_a_long_value_leaves_room_for_the_key_and_for_other_records(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("long-values", 1))
    running.produce("long-values", (b"customer-1234", b"lorem ipsum " * 600, {}))
    browser.get(f"{running.page}/topics/long-values/tail")
    wait(browser, "customer-1234")
    key_lines, height = browser.execute_script(
        "const cells = document.querySelector('#records tr').cells;"
        "return [cells[3].querySelector('.data').getClientRects()[0].height, cells[4].offsetHeight]"
    )
    assert key_lines < 30
    assert height < 300


def test_a_topic_that_is_called_tail_has_both_pages(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("tail", 1))
    browser.get(f"{running.page}/topics/tail")
    wait(browser, "Settings of this topic")
    browser.get(f"{running.page}/topics/tail/tail")
    wait(browser, "No records yet")


def test_a_page_that_is_none_is_told_as_the_others(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    browser.get(f"{running.page}/nowhere/<b>")
    wait(browser, "Page not found")
    assert browser.find_element("link text", "Topics").is_displayed()


def test_a_page_whose_broker_is_gone_says_since_when(browser: Chrome, wait: Wait) -> None:
    gone = BrokerWithConsole()
    try:
        browser.get(f"{gone.page}/topics")
        wait(browser, "Topics")
    finally:
        gone.broker.stop()
    wait(browser, "no updates since ")


def test_the_live_tail_shows_a_record_that_is_produced_while_it_is_open(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("tailed", 2))
    running.produce("tailed", (b"k0", b"there before", {}))
    browser.get(f"{running.page}/topics/tailed/tail")
    wait(browser, "there before")
    wait(browser, "live")
    running.produce("tailed", (b"k1", b'{"came": "during the test"}', {"source": b"shop"}))
    wait(browser, '{"came": "during the test"}')
    newest = browser.execute_script("return document.querySelector('#records tr').innerText")
    assert "k1" in newest
    assert "shop" in newest


def test_the_lag_of_a_group_changes_without_a_reload(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("lagging", 1))
    running.produce("lagging", *[(None, b"x", {})] * 5)
    commit_as_consumer(running, "readers", "lagging", 2)
    browser.get(f"{running.page}/groups/readers")
    wait(browser, "lagging")
    assert browser.execute_script("return document.getElementById('lag').innerText") == "3"
    browser.execute_script("window.wasLoadedOnce = true")
    running.produce("lagging", *[(None, b"x", {})] * 1230)
    wait(browser, "1,233")
    assert browser.execute_script("return window.wasLoadedOnce") is True


@pytest.mark.slow
def test_an_open_transaction_is_shown_with_its_age_until_it_ends(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("payments", 2))
    settings = {"bootstrap.servers": running.address, "transactional.id": "till-7", "transaction.timeout.ms": 600_000}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("payments", b"x", partition=partition)
    producer.flush()
    browser.get(running.page)
    wait(browser, "till-7")
    row = "return [...document.querySelector('#transactions tbody tr').cells].map((cell) => cell.innerText)"
    transactional_id, state, age, time_out, partitions, topics = browser.execute_script(row)
    assert (transactional_id, state, time_out, partitions, topics.strip()) == (
        "till-7",
        "Ongoing",
        "10 min",
        "2",
        "payments",
    )
    assert age.split()[1] in ("s", "min")
    wait(browser, "oldest ")
    producer.abort_transaction(30)
    WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: not browser.find_elements("id", "transactions"))


@pytest.mark.slow
def test_foreign_text_is_shown_as_text(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("attacked", 1))
    attack = ATTACK.encode()
    commit_as_consumer(running, ATTACK, "attacked", 0)
    running.produce("attacked", (attack, attack, {ATTACK: attack}))
    browser.get(f"{running.page}/topics/attacked/tail")
    wait(browser, "taken over")
    wait(browser, "live")
    running.produce("attacked", (b"during", attack, {ATTACK: attack}))
    wait(browser, "during")
    assert_nothing_ran(browser)
    browser.get(f"{running.page}/groups")
    wait(browser, ATTACK)
    assert_nothing_ran(browser)
    follow(browser, "taken over")
    wait(browser, "attacked")
    assert_nothing_ran(browser)
    browser.get(f"{running.page}/topics?q={ATTACK}")
    wait(browser, "No topic has")
    assert_nothing_ran(browser)


@pytest.mark.slow
def test_it_is_whole_without_javascript(running: BrokerWithConsole, browser_without_script: Chrome) -> None:
    create(running, NewTopic("quiet", 1))
    running.produce("quiet", (b"key", b"seen without a script", {}))
    commit_as_consumer(running, "quiet-readers", "quiet", 0)
    texts = (
        ("/", "Overview"),
        ("/topics/quiet", "Read by"),
        ("/topics/quiet/tail", "seen without a script"),
        ("/groups/quiet-readers", "Committed"),
        ("/brokers", "controller"),
        ("/brokers", "This cluster does not serve group.protocol=consumer"),
    )
    assert_shown(browser_without_script, running.page, texts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colours_of_the_system(
    running: BrokerWithConsole, browser: Chrome, scheme: str, tmp_path: Path
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(f"{running.page}/")
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    brightness = [int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(",")]
    assert (min(brightness) > 200) if scheme == "light" else (max(brightness) < 60)
    assert browser.save_screenshot(str(tmp_path / f"{scheme}.png"))


def test_a_page_that_is_not_there_says_so(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    browser.get(f"{running.page}/topics/no-such-topic")
    wait(browser, "Topic not found")
    browser.get(f"{running.page}/groups/no-such-group")
    wait(browser, "Group not found")


def produce_numbered(running: BrokerWithConsole, topic: str, count: int) -> None:
    records = [
        (b"key-%d" % number, b'{"number": %d, "even": %s}' % (number, b"true" if number % 2 == 0 else b"false"), {})
        for number in range(count)
    ]
    running.produce(topic, *records)


def numbers_shown(browser: Chrome) -> list[int]:
    offsets = "return [...document.querySelectorAll('.tail tbody tr')].map((row) => Number(row.cells[2].innerText))"
    return list(browser.execute_script(offsets))


def test_records_are_browsed_from_the_end_an_offset_and_a_time(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("browsed", 1))
    produce_numbered(running, "browsed", 120)
    browser.get(f"{running.page}/topics/browsed/records")
    wait(browser, "key-119")
    assert numbers_shown(browser) == list(range(119, 69, -1))
    browser.get(f"{running.page}/topics/browsed/records?from=offset&at=30")
    wait(browser, "key-30")
    assert numbers_shown(browser) == list(range(30, 80))
    follow(browser, "next")
    wait(browser, "key-80")
    assert numbers_shown(browser) == list(range(80, 120))
    browser.get(f"{running.page}/topics/browsed/records?from=time&at=2020-01-01")
    wait(browser, "key-0")
    assert numbers_shown(browser) == list(range(50))
    browser.get(f"{running.page}/topics/browsed/records?from=time&at=2120-01-01")
    wait(browser, "There are no records here")
    browser.get(f"{running.page}/topics/browsed/records?from=offset&at=soon")
    wait(browser, "is no offset")


def test_the_pages_of_several_partitions_show_each_record_once(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("spread", 3))
    produce_numbered(running, "spread", 130)
    browser.get(f"{running.page}/topics/spread/records?from=beginning&value=true")
    seen: list[str] = []
    keys = "return [...document.querySelectorAll('.tail tbody tr')].map((row) => row.cells[3].innerText)"
    for _ in range(10):
        seen += browser.execute_script(keys)
        if not browser.find_elements("css selector", "nav.pages a"):
            break
        follow(browser, "next")
    assert sorted(seen) == sorted(f"key-{number}" for number in range(0, 130, 2))


def test_a_filter_by_key_value_and_header(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("filtered", 2))
    running.produce(
        "filtered",
        (b"ann", b"tea", {"shop": b"north"}),
        (b"bob", b"Coffee", {}),
        (b"cy", b"coffee", {"shop": b"south"}),
    )
    for query, found in (
        ("key=bob", ["bob"]),
        ("value=coffee", ["bob", "cy"]),
        ("header=south", ["cy"]),
        ("value=coffee&header=shop", ["cy"]),
        ("from=beginning&value=milk", []),
    ):
        browser.get(f"{running.page}/topics/filtered/records?{query}")
        wait(browser, found[0] if found else "No record contains these texts")
        cells = browser.execute_script(
            "return [...document.querySelectorAll('.tail tbody tr')].map((row) => row.cells[3].innerText)"
        )
        assert sorted(cells) == found


def test_json_unfolds_and_what_is_shown_can_be_downloaded(
    running: BrokerWithConsole, browser: Chrome, wait: Wait
) -> None:
    create(running, NewTopic("unfolded", 1))
    running.produce("unfolded", (b"\xff\x00", b'{"price": 1.10, "big": 12345678901234567890}', {"h": b"x"}))
    browser.get(f"{running.page}/topics/unfolded/records")
    wait(browser, "ff 00")
    browser.find_element("css selector", ".unfold summary").click()
    assert browser.find_element("css selector", ".unfold pre").text == (
        '{\n  "price": 1.10,\n  "big": 12345678901234567890\n}'
    )
    assert browser.find_element("css selector", ".unfold .copy").is_displayed()
    href = browser.execute_script("return document.getElementById('download').href")
    with urllib.request.urlopen(href, timeout=30) as response:
        assert response.headers["content-disposition"] == 'attachment; filename="unfolded.jsonl"'
        (line,) = response.read().decode().splitlines()
    record = json.loads(line)
    assert record["key"] == {"base64": "/wA="}
    assert record["value"] == '{"price": 1.10, "big": 12345678901234567890}'
    assert record["headers"] == [["h", "x"]]


def test_lag_beyond_deleted_records_is_named(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("purged", 1))
    running.produce("purged", *[(None, b"x", {})] * 10)
    commit_as_consumer(running, "slow-readers", "purged", 2)
    admin = AdminClient({"bootstrap.servers": running.address})
    where = TopicPartition("purged", 0, 7)
    admin.delete_records([where])[where].result(30)
    browser.get(f"{running.page}/groups/slow-readers")
    wait(browser, "5 records were deleted before this group read them")
    assert browser.execute_script("return document.getElementById('lag').innerText") == "8"


def test_internal_topics_are_counted_apart(running: BrokerWithConsole, browser: Chrome, wait: Wait) -> None:
    create(running, NewTopic("counted", 2))
    commit_as_consumer(running, "makes-the-internal-topic", "counted", 0)
    # an earlier test may have created the topic of transactions
    topics = AdminClient({"bootstrap.servers": running.address}).list_topics(timeout=30).topics
    internal = [name for name in topics if name.startswith("__")]
    assert "__consumer_offsets" in internal
    browser.get(f"{running.page}/")
    wait(browser, f"+ {len(internal)} internal")
