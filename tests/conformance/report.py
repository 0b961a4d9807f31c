"""Reports the results of each client in a run of the conformance tests, and the API versions that it used.

`pytest tests/conformance --report FILE` adds to FILE: several runs can make one report. A frame handler in front of
the dispatcher sees the versions, so only if Moldau runs in this process; a client is known by its client id.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.reply import Reply
from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.headers import decode_request_header
from tests.conformance.clients import ALL_CLIENTS

FEATURES = {
    "test_records_come_back_in_order_with_every_codec": "records, every codec",
    "test_null_and_empty_are_told_apart": "null key and value",
    "test_headers_keep_their_order_and_repeat": "headers",
    "test_a_record_of_a_megabyte": "1 MB record",
    "test_a_group_resumes_where_it_committed": "commit and resume",
    "test_two_groups_each_read_everything": "two groups",
    "test_partitions_move_when_a_member_joins_leaves_and_is_killed": "rebalance, kill -9",
    "test_a_third_member_of_two_partitions_is_idle": "idle member",
    "test_partitions_are_added_and_written_to": "add partitions",
    "test_fewer_partitions_are_refused_and_change_nothing": "fewer partitions refused",
    "test_a_changed_config_is_described_and_acts": "configs",
    "test_deleted_records_are_not_read_again": "delete records",
    "test_a_group_is_listed": "list groups",
    "test_a_deleted_group_starts_from_the_beginning": "delete group",
    "test_an_offset_is_found_by_time": "offset by time",
    "test_a_deleted_topic_is_gone": "delete topic",
    "test_a_committed_transaction_is_read_and_an_aborted_one_is_not": "transactions",
    "test_positions_count_once_their_transaction_is_committed": "offsets in a transaction",
    "test_a_later_producer_of_a_transactional_id_fences_the_one_before": "fencing",
}


class Observer:
    """Records key, version and client id of every request that has a header, then passes the frame on."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self.seen: dict[tuple[str, int, str], None] = {}

    def handle(self, connection: Reply, frame: memoryview) -> Answer | PendingResponse | None:
        header, _ = decode_request_header(frame)
        self.seen[ApiKey(header.api_key).name, header.api_version, header.client_id or ""] = None
        answer: Answer | PendingResponse | None = self._handler.handle(connection, frame)
        return answer


class Report:
    """A pytest plugin: collects outcomes, writes them at the end."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._outcomes: dict[str, dict[str, bool]] = {}
        self._observer: Observer | None = None

    def observe(self, cluster: Cluster) -> None:
        node = cluster._members[1].runtime.node
        self._observer = Observer(node.connections.dispatcher)
        node.connections.hand_frames_to(self._observer)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]):
        outcome = yield
        report = outcome.get_result()
        client = getattr(item, "callspec", None) and item.callspec.params.get("client")
        feature = FEATURES.get(getattr(item, "originalname", ""))
        if report.when == "call" and client and feature:
            features = self._outcomes.setdefault(client, {})
            features[feature] = features.get(feature, True) and report.passed

    def pytest_sessionfinish(self) -> None:
        known: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        for client, features in self._outcomes.items():
            row = known.setdefault(client, {"features": {}, "apis": []})
            row["version"] = ALL_CLIENTS[client].version()
            row["features"].update(features)
        for api, version, client_id in self._observer.seen if self._observer else ():
            if client_id in known:
                apis = {tuple(one) for one in known[client_id]["apis"]} | {(api, version)}
                known[client_id]["apis"] = sorted(apis)
        self._path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
