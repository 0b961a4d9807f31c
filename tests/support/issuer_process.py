"""The issuer of `tests.support.issuer` as a process, for clients of other languages.

    python -m tests.support.issuer_process --tls --directory DIR

Writes one line of JSON (`url`, and with `--tls` `ca`: the CA file) and serves until its input ends. Each line of its
input is a command in JSON, and gets a line as its answer: {"fault": ["/token", "hang"]}, {"fault": ["/token", null]},
{"forgery": "expired"}, {"rotate": "RSA"}, {"token": "alice"}, {"lifetime_s": 5}, {"client": ["id", "secret"]}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.support.certificates import authority
from tests.support.issuer import Client, Issuer


def obey(issuer: Issuer, command: dict[str, Any]) -> Any:
    answer: Any = "done"
    for name, value in command.items():
        if name == "fault":
            path, fault = value
            if fault is None:
                issuer.faults.pop(path, None)
            else:
                issuer.faults[path] = fault
        elif name == "forgery":
            issuer.forgery = value
        elif name == "rotate":
            answer = issuer.rotate(value).kid
        elif name == "token":
            answer = issuer.token(value, forgery=issuer.forgery)
        elif name == "lifetime_s":
            issuer.lifetime_s = value
        elif name == "client":
            issuer.clients[value[0]] = Client(value[1])
        else:
            raise ValueError(f"no command {name}")
    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--kind", choices=("RSA", "EC"), default="EC")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--directory", type=Path, default=Path())
    arguments = parser.parse_args()
    with Issuer.running(tls=arguments.tls, kind=arguments.kind, port=arguments.port) as issuer:
        told = {"url": issuer.url}
        if arguments.tls:
            told["ca"] = str(authority().write(arguments.directory, "issuer-ca"))
        print(json.dumps(told), flush=True)
        for line in sys.stdin:
            print(json.dumps(obey(issuer, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
