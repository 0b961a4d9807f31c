"""What the programs share: the topic, its settings at the device, the settings of clients."""

TOPIC = "readings"
BYTES = 400
"""Of a reading."""
ON_THE_DEVICE = {
    "segment.bytes": str(1 << 20),
    "retention.bytes": str(6 << 20),  # of ended segments: with the one that grows, 7 MiB
    "flush.messages": "1",  # a forwarded reading must outlive a power cut, or its offset would be given again
}
SECONDS = 10.0


def client(broker):
    return {
        "bootstrap.servers": broker,
        "metadata.recovery.strategy": "none",  # else a transaction may hang after a broker's death: librdkafka's 5511
        "reconnect.backoff.max.ms": 1_000,
        "socket.timeout.ms": 5_000,
        "log_level": 0,
    }
