"""The reaction of every client to a missing right: an error, in time, and no effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.clients import Client, Received

pytestmark = pytest.mark.secured


def test_a_topic_without_a_right_is_refused(client: Client, new_name: Callable[[str], str]) -> None:
    # each client has its own error for code 29; kcat ends without a message
    with pytest.raises(Exception, match="" if client.name == "kcat" else r"(?i)authoriz|29"):
        client.produce(new_name("closed"), [Received(None, b"never")])
