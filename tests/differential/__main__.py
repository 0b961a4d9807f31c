"""Compares the responses of two brokers to random legal request sequences: `python -m tests.differential --sequences
2000`.

Apache Kafka is started from its jars (MOLDAU_KAFKA_LIBS, or fetched from Maven Central) unless --theirs names a running
one. `--users`: each request comes from one of three users with random ACLs, and the resulting state is compared too
(users.py). `--tokens`: requests of delegation tokens by these users (tokens.py). Exits with 1 if a response differs and
no row of exemptions.py covers it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from moldau.testing import Cluster
from tests.differential.answers import differences
from tests.differential.brokers import OUR_SETTINGS, OWN, Broker
from tests.differential.exemptions import exemption
from tests.differential.oracle import running_kafka
from tests.differential.step import Bindings, Step
from tests.differential.steps import Sequence
from tests.differential.tokens import EXPIRIES, TOKEN_SETTINGS, TokenSequence
from tests.differential.users import LOGINS, USERS, both_with_users, drawn_acls, state_steps

STEPS = 12
BASE_BEFORE_NOW_MS = 3_600_000
SETTLE_S = 0.02
REFUSALS = (29, 30, 31, 53, 63, 65)
"""For a topic, a group, the cluster, a transactional id and a token: *_AUTHORIZATION_FAILED, and tokens of others."""


class Comparison:
    """Two brokers, their different responses, and the number of differences without an exemption."""

    def __init__(self, ours: Broker, theirs: Broker, run: int) -> None:
        self.ours, self.theirs, self.run = ours, theirs, run
        self.found: Counter[str] = Counter()
        self.bad = 0
        self.refused = 0

    def compare(self, seed: int) -> None:
        """Runs one sequence."""
        sequence, mine, other = self._begun(seed)
        for number, step in enumerate(sequence.random_steps(STEPS)):
            self._ask(f"seed {seed} step {number}", step, sequence, mine, other, OWN)

    def compare_users(self, seed: int) -> None:
        """Runs one sequence, each request of a user; then the super user reads the state."""
        sequence, mine, other = self._begun(seed)
        for step in sequence.opening():
            self._ask(f"seed {seed} opening", step, sequence, mine, other, OWN)
        acls = drawn_acls(sequence.random, sequence)
        for broker in (self.ours, self.theirs):
            broker.give(acls)
        bad = self.bad
        for number, step in enumerate(sequence.drawn_steps(STEPS, LOGINS)):
            user = sequence.random.choice(USERS)
            self._ask(f"seed {seed} step {number} by {user}", step, sequence, mine, other, user)
        for step in state_steps(sequence):
            self._ask(f"seed {seed} state", step, sequence, mine, other, OWN)
        if self.bad > bad:
            print(*(f"    {acl}" for acl in acls), sep="\n")

    def compare_tokens(self, seed: int) -> None:
        """Runs one sequence of delegation tokens; then the super user lists the tokens."""
        _, mine, other = self._begun(seed)
        sequence = TokenSequence(seed, f"s{self.run}x{seed}")
        acls = sequence.acls()
        for broker in (self.ours, self.theirs):
            broker.give(acls)
        bad = self.bad
        for number, (user, step) in enumerate(sequence.steps(STEPS)):
            self._ask(f"seed {seed} step {number} by {user}", step, sequence, mine, other, user)
            self.ours.wait_for_tokens(mine.get(EXPIRIES, {}))
            self.theirs.wait_for_tokens(other.get(EXPIRIES, {}))
        for step in sequence.state():
            self._ask(f"seed {seed} state", step, sequence, mine, other, OWN)
        for user in (*USERS, OWN):
            for step in sequence.clearing():
                self._ask(f"seed {seed} end by {user}", step, sequence, mine, other, user)
        if self.bad > bad:
            print(*(f"    {acl}" for acl in acls), sep="\n")

    def _begun(self, seed: int) -> tuple[Sequence, Bindings, Bindings]:
        base_ms = int(time.time() * 1000) - BASE_BEFORE_NOW_MS
        return Sequence(seed, f"s{self.run}x{seed}"), Bindings(base_ms), Bindings(base_ms)

    def _ask(
        self, place: str, step: Step, sequence: Sequence | TokenSequence, mine: Bindings, other: Bindings, user: str
    ) -> None:
        ours, theirs, prefix = self.ours, self.theirs, sequence.prefix
        answers = ours.take(step, mine, prefix, user), theirs.take(step, other, prefix, user)
        if step.key.name.startswith(("DESCRIBE_", "LIST_")) and differences(*answers):
            theirs.settle()
            answers = ours.take(step, mine, prefix, user), theirs.take(step, other, prefix, user)
        self.refused += any(f"'error_code': {code}" in str(answers[1]) for code in REFUSALS)
        for path, a, b in differences(*answers):
            reason = exemption(step.key.name, path, a, b, is_of_user=user != OWN)
            self.found[f"{step.key.name}{path}: {reason or 'DIFFERS'}"] += 1
            if reason is None:
                self.bad += 1
                print(f"{place} {step.key.name} v{step.version} {path}: ours {a!r}, theirs {b!r}")
                print(f"    {step.make(mine)!r}"[:600], flush=True)


@contextmanager
def both(theirs_at: str | None) -> Iterator[tuple[Broker, Broker]]:
    """Without users: any client may do everything."""
    with Cluster(settings=OUR_SETTINGS) as cluster, running_kafka(theirs_at) as address:
        yield Broker(cluster.bootstrap_servers), Broker(address, settle_s=SETTLE_S)


def started(arguments: argparse.Namespace) -> AbstractContextManager[tuple[Broker, Broker]]:
    """The two brokers that the command line names."""
    if arguments.tokens:
        return both_with_users(SETTLE_S, TOKEN_SETTINGS)
    return both_with_users(SETTLE_S) if arguments.users else both(arguments.theirs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--first-seed", type=int, default=1)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--theirs", help="HOST:PORT of an Apache Kafka that runs")
    which.add_argument("--users", action="store_true", help="requests of three users who may do random things")
    which.add_argument("--tokens", action="store_true", help="their requests of delegation tokens, and nothing else")
    arguments = parser.parse_args()
    with started(arguments) as brokers:
        for broker in brokers:
            broker.wait_for_coordinator("any")
        comparison = Comparison(*brokers, run=int(time.time()))
        compare = comparison.compare
        if arguments.users or arguments.tokens:
            compare = comparison.compare_users if arguments.users else comparison.compare_tokens
        for done in range(1, arguments.sequences + 1):
            compare(arguments.first_seed + done - 1)
            if done % 100 == 0:
                print(f"{done} sequences, {comparison.bad} differences", flush=True)
    for row, count in comparison.found.most_common():
        print(f"{count:7} {row}")
    if arguments.users or arguments.tokens:
        print(f"{comparison.refused} answers of Apache Kafka refused a right")
    print(f"{arguments.sequences} sequences of {STEPS} requests: {comparison.bad} differences that no exemption covers")
    return 1 if comparison.bad else 0


if __name__ == "__main__":
    sys.exit(main())
