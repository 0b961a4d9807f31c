"""Makes the tables of docs/reference/compatibility.md from recorded results: `python -m
tests.conformance.compatibility`.

results/*.json are reports of the conformance tests against one broker, against three (`moldau up --brokers 3`, then
`make clients AGAINST=`) and against two releases of Apache Kafka; the recorded exchanges are those of
tests/differential. A test checks that this module still makes the same page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moldau.wire.protocol.api_keys import API_VERSIONS
from tests.differential.exchanges import recorded

RESULTS = Path(__file__).parent / "results"
OTHERS = ("moldau-three-brokers", "apache", "apache-4.3")
PAGE = Path(__file__).parents[2] / "docs/reference/compatibility.md"
BEGIN, END = "<!-- begin: made from results -->", "<!-- end: made from results -->"


def report(name: str) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return rows


def mark(row: dict[str, Any] | None, feature: str) -> str:
    if row is None or feature not in row["features"]:
        return "-"
    return "yes" if row["features"][feature] else "**no**"


def client_table(moldau: dict[str, Any], *others: dict[str, Any]) -> list[str]:
    """Features down, clients across; each cell: with Moldau, then with each of OTHERS."""
    clients = sorted(moldau)
    features = list(dict.fromkeys(feature for row in moldau.values() for feature in row["features"]))
    lines = [
        "| with Moldau / with three brokers / with Apache Kafka 4.4.0 / with 4.3.1 | "
        + " | ".join(f"{name} {moldau[name]['version']}" for name in clients)
        + " |",
        "|---|" + "---|" * len(clients),
    ]
    for feature in sorted(features):
        cells = [" / ".join(mark(told.get(name), feature) for told in (moldau, *others)) for name in clients]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    return lines


def spans(versions: list[int]) -> str:
    """`0-3, 5` of [0, 1, 2, 3, 5]."""
    parts: list[list[int]] = []
    for version in sorted(versions):
        if parts and version == parts[-1][1] + 1:
            parts[-1][1] = version
        else:
            parts.append([version, version])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def api_table(moldau: dict[str, Any]) -> list[str]:
    """Each API: the versions that each client used, and those whose responses were compared with recorded ones."""
    answers = {(answer["api"], answer["version"]) for answers in recorded() for answer in answers}
    lines = ["| API | versions | used by clients | compared with recorded answers |", "|---|---|---|---|"]
    for key, row in API_VERSIONS.items():
        served = range(row.min_version, row.max_version + 1)
        used = {
            client: [version for api, version in rows["apis"] if api == key.name and version in served]
            for client, rows in sorted(moldau.items())
        }
        said = "; ".join(f"{client} {spans(versions)}" for client, versions in used.items() if versions)
        compared = spans([version for version in served if (key.name, version) in answers])
        lines.append(f"| {row.name} | {spans(list(served))} | {said} | {compared} |")
    return lines


def tables() -> str:
    moldau, others = report("moldau"), [report(name) for name in OTHERS]
    parts = ["### Clients", "", *client_table(moldau, *others), "", "### Versions", "", *api_table(moldau)]
    return "\n".join(parts)


def page_with(text: str, made: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), tables()))
