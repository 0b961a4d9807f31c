"""`make exactly-once`: kills copier and broker during a transactional copy; every record must be there once.

python -m tests.exactly_once [--records 100000] [--copier-kills 50] [--broker-kills 10] [--member] [--java] [--seed N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.exactly_once.campaign import Campaign, Plan
from tests.exactly_once.copiers import java, librdkafka


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exactly_once", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--copier-kills", type=int, default=50)
    parser.add_argument("--broker-kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--member", action="store_true", help="the copier is a member of its group")
    parser.add_argument("--java", action="store_true", help="the copier is Kafka's TransactionalMessageCopier")
    options = parser.parse_args()
    kind = java(is_member=options.member) if options.java else librdkafka(is_member=options.member)
    plan = Plan(options.records, options.copier_kills, options.broker_kills, options.seed, kind)
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="moldau-exactly-once-") as folder:
        campaign = Campaign(plan, str(Path(folder) / "data"), lambda line: print(line, flush=True))
        faults = campaign.run()
    for fault in faults:
        print(fault)
    print(
        f"{options.records:,} records, {campaign.copiers_killed} copiers and {options.broker_kills} brokers killed, "
        f"{campaign.copier_deaths} copiers ended by themselves, {time.monotonic() - began:.0f} s: "
        f"{'each record is there once' if not faults else 'BROKEN'}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
