"""`make change-of-sides`: nodes of Apache Kafka become nodes of Moldau and back, under load. Clients write, read and
copy meanwhile; then every guarantee is checked.

    python -m tests.chaos.sides [--dynamic] [--rate 300] [--seed N] [--folder DIR]

The cluster of three is formatted with Apache Kafka's defaults, and the features that Moldau does not serve are then
downgraded. One node after the other is stopped, and a node of the other kind starts on its directory; that node is
killed with -9 and starts again. After each step Apache Kafka's own tools must see three voters and every replica in
sync; no client may see an error. Needs a Java (JAVA_HOME, or on the PATH) and the jars of Apache Kafka:
MOLDAU_KAFKA_LIBS names their directory. Exit code 1 if a guarantee was broken.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

from moldau.testing import history
from tests.chaos.campaign import judged, parse_options, tell
from tests.chaos.clients import Clients
from tests.chaos.nodes import LISTENERS, NODE_IDS, Nodes
from tests.chaos.proxies import Proxies
from tests.support.apache_kafka import check_with_kafkas_tools, run_java
from tests.support.cluster_of_three import UNSERVED, apache_command, moldau_command

REST_S = 5.0
"""The pause with a whole cluster between two steps."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.sides", description=__doc__)
    parser.add_argument("--dynamic", action="store_true", help="the voters stand in the log (kraft.version 1)")
    options = parse_options(parser, rate=300)
    apache = apache_command(os.environ["MOLDAU_KAFKA_LIBS"])
    choices, links = random.Random(options.seed), Proxies(NODE_IDS, len(LISTENERS))
    nodes = Nodes(options.folder, links, apache, is_dynamic=options.dynamic)

    def change(recorder: history.Recorder, clients: Clients) -> list[str]:
        begin_s = time.monotonic()

        def step(node_id: int, text: str) -> None:
            recorder.fault(text)
            nodes.start(node_id)
            nodes.wait_whole()
            check_with_kafkas_tools(nodes.bootstrap_servers, NODE_IDS)
            time.sleep(REST_S)
            clients.check()
            at_s = time.monotonic() - begin_s
            print(f"{at_s:5.0f} s: {text}; {clients.acknowledged:,} acknowledged", flush=True)

        for feature in UNSERVED:
            run_java(
                "org.apache.kafka.tools.FeatureCommand",
                *("--bootstrap-server", nodes.bootstrap_servers, "downgrade", "--feature", feature),
            )
        try:
            for kind, command in (("Moldau", moldau_command), ("Apache Kafka", apache)):
                for node_id in choices.sample(NODE_IDS, len(NODE_IDS)):
                    nodes.stop(node_id)
                    nodes.become(node_id, command)
                    step(node_id, f"node {node_id} becomes a node of {kind}")
                    nodes.kill(node_id)
                    step(node_id, f"node {node_id} of {kind} was killed with -9")
        except AssertionError as error:
            return [str(error)]
        return [f"the copier ended by itself, {clients.ended_copiers} times"] if clients.ended_copiers else []

    return tell(judged(options.folder, nodes, options.rate, choices, change))


if __name__ == "__main__":
    sys.exit(main())
