"""The guarantees for a simulated client of delegation tokens."""

from __future__ import annotations

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.simulation.cluster.settings import (
    FIRST_SEED_WITH_TOKENS,
    TOKENS_LISTENER,
    brokers_of,
    has_tokens,
    node_ids_of,
    settings_of,
)
from moldau.simulation.cluster.token_changer import SOON_MS, Token

NOW_MS = 1_800_000_000_000
LATER_MS = NOW_MS + 2 * SOON_MS


@pytest.mark.parametrize(
    ("period_ms", "lasts", "has_ended"), [(None, True, True), (1_000, False, True), (LATER_MS, True, False)]
)
def test_a_change_without_an_answer_leaves_open_what_it_may_do(period_ms: int | None, lasts: bool, has_ended: bool):
    lasting, ending = Token("a", b"", LATER_MS), Token("b", b"", NOW_MS - 1)
    if period_ms is not None:
        lasting.asked(period_ms)
        ending.asked(period_ms)
    assert (lasting.lasts(NOW_MS), lasting.has_ended(NOW_MS)) == (lasts, False)
    assert (ending.lasts(NOW_MS), ending.has_ended(NOW_MS)) == (False, has_ended)


def test_a_token_that_was_removed_has_ended_whatever_comes():
    token = Token("a", b"", LATER_MS)
    token.is_removed = token.may_last = True
    assert (token.lasts(NOW_MS), token.has_ended(NOW_MS)) == (False, True)


def test_brokers_of_some_seeds_alone_have_tokens():
    assert not any(has_tokens(seed) for seed in range(1, FIRST_SEED_WITH_TOKENS))
    seeds = [seed for seed in range(FIRST_SEED_WITH_TOKENS, 100) if has_tokens(seed)]
    assert seeds
    for seed in seeds:
        for node_id in node_ids_of(seed):
            settings = parse_broker_settings(settings_of(seed, node_id))
            names = [listener.name for listener in settings.listeners]
            assert (TOKENS_LISTENER in names) == (node_id in brokers_of(seed))
