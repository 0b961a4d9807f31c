"""What the programs share: the settings of clients, the topic, the accounts, the transfers."""

from random import Random

ENTRIES, PARTITIONS = "entries", 3
ACCOUNTS = [f"account-{number}" for number in range(8)]
TRANSFERS = 3_000
SECONDS = 20.0


def client(broker):
    return {
        "bootstrap.servers": broker,
        "metadata.recovery.strategy": "none",  # else a transaction may hang after a broker's death: librdkafka's 5511
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 0,
    }


def transfers():
    """From, to, and cents of each transfer."""
    draw = Random(9)
    return [(*draw.sample(ACCOUNTS, 2), draw.randint(1, 10_000)) for _ in range(TRANSFERS)]
