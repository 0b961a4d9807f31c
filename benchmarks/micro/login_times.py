"""The time to reject a wrong login, of an existing user and of a missing one.

    python -m benchmarks.micro.login_times

Both are tried in turn, 1,000 times each, by PLAIN and by SCRAM; the medians should differ by less than 5 %.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

from moldau.core.authentication.exchange import AuthenticationRefusedError, Exchange
from moldau.core.authentication.mechanisms import ListenerMechanisms
from moldau.core.authentication.settings import sasl_settings
from moldau.core.authentication.users import ScramDirectory
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.controller.scram import credential_record
from moldau.core.metadata.login_records import LoginRecords, login_key
from moldau.shell.io.random import SystemRandom
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.sasl_tokens import SCRAM_NUMBERS, decode_server_first, salted_password

ATTEMPTS = 1_000
USERS = 100
SCRAM = "SCRAM-SHA-512"


def mechanisms() -> ListenerMechanisms:
    users = "".join(f' user_known{number}="right"' for number in range(USERS))
    settings = parse_broker_settings(
        {
            "listeners": "SASL://127.0.0.1:9092",
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL",
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
            "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required{users};",
        }
    )
    kept, directory = LoginRecords(), ScramDirectory(b"s" * 32)
    for number in range(USERS):
        salt = random.Random(number).randbytes(26)
        salted = salted_password(SCRAM, "right", salt, 4_096)
        record = credential_record(f"known{number}", SCRAM_NUMBERS[SCRAM], salt, salted, 4_096)
        kept[login_key(record)] = record  # type: ignore[index]
    directory.changed(kept)
    return ListenerMechanisms(sasl_settings("SASL", settings), directory, SystemRandom(), b"s" * 32)


def plain(exchange: Exchange, name: str) -> None:
    exchange.evaluate(f"\0{name}\0wrong".encode())


def scram(exchange: Exchange, name: str) -> None:
    answer = exchange.evaluate(f"n,,n={name},r=abcdefghijklmnopqrstuvwx".encode())
    nonce = decode_server_first(bytes(answer)).nonce  # type: ignore[arg-type]
    exchange.evaluate(f"c=biws,r={nonce},p={'A' * 86}==".encode())


def time_of(exchange: Exchange, attempt: Callable[[Exchange, str], None], name: str) -> float:
    began_s = time.perf_counter()
    try:
        attempt(exchange, name)
    except AuthenticationRefusedError:
        return time.perf_counter() - began_s
    raise RuntimeError(f"{name} was let in")


def main() -> int:
    offered, is_equal = mechanisms(), True
    for mechanism, attempt in (("PLAIN", plain), (SCRAM, scram)):
        times: dict[str, list[float]] = {"known": [], "other": []}
        for number in range(ATTEMPTS):
            for kind in times if number % 2 else reversed(times):
                name = f"{kind}{number % USERS}"
                times[kind].append(time_of(offered.new_exchange(mechanism), attempt, name))
        known, other = (statistics.median(times[kind]) * 1e6 for kind in times)
        ratio = other / known
        is_equal = is_equal and abs(ratio - 1) <= 0.05
        print(f"{mechanism:14} known {known:7.1f} us, unknown {other:7.1f} us, ratio {ratio:.3f}")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
