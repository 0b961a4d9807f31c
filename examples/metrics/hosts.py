"""What 30 hosts say of themselves for an hour, each ten seconds, as HOST, a tab, and JSON: two counters since the start
of the host's server, and a latency. A host that starts again counts from zero."""

import json
from datetime import datetime, timedelta
from random import Random

draw = Random(17)
begin = datetime(2026, 1, 5, 9)
hosts = {
    f"host-{number:02}": {"requests": draw.randint(0, 90_000), "errors": draw.randint(0, 200)} for number in range(30)
}
for second in range(0, 3600, 10):
    for host, counters in hosts.items():
        if draw.random() < 0.0005:  # the server starts again
            counters.update(requests=0, errors=0)
        is_slow = 1500 <= second < 2280 and host < "host-10"  # a third of the hosts
        requests = draw.randint(40, 120)
        counters["requests"] += requests
        counters["errors"] += sum(draw.random() < (0.12 if is_slow else 0.004) for _ in range(requests))
        at = begin + timedelta(seconds=second + draw.randint(0, 9))
        latency = draw.lognormvariate(4.9 if is_slow else 3.4, 0.35)
        value = {"at": at.isoformat() + "Z", **counters, "latency_ms": round(latency, 1)}
        print(host, json.dumps(value), sep="\t")
