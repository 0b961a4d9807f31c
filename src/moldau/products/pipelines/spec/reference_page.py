"""Writes docs/reference/pipelines/keys.md: `python -m moldau.products.pipelines.spec.reference_page > FILE`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from moldau.products.pipelines.core.cluster import CLIENT_SETTINGS, CLUSTER_KEYS, PROFILE
from moldau.products.pipelines.core.keys import Key
from moldau.products.pipelines.formats import all_formats
from moldau.products.pipelines.formats.registry_security import NAMES as REGISTRY_SETTINGS
from moldau.products.pipelines.sources import all_sources
from moldau.products.pipelines.sources.source import COMMON_KEYS
from moldau.products.pipelines.spec.keys import CASE_KEYS, FLOW_KEYS, FROM, LONG_FORM, MORE_KEYS, NAME, SHORT_FORM
from moldau.products.pipelines.targets import all_targets

_HEAD = """# Keys of a pipeline file

Written from the keys that the parser reads; a test fails where this page is old. To write it again:

    python -m moldau.products.pipelines.spec.reference_page > docs/reference/pipelines/keys.md

- A key that is unknown, missing, or has a wrong value is rejected with its line.
- Relative paths start at the directory of the file. Those of a file from a pipe (`-`) start at the working directory.
- `${NAME}` in any text is a [parameter](running.md#what-is-checked).
- A time is a number and a unit, `millisecond` to `day`: `10 seconds`.
- *Path or address*: a path, or the address of a folder in an [object store](targets.md#object-stores).

A [Python module](modules.md) takes the same keys.
"""


def keys_page() -> str:
    """The whole page docs/reference/pipelines/keys.md."""
    sources = {kind: "`, `".join(kind.NAMED_BY) for kind in dict.fromkeys(all_sources().values())}
    targets = {kind: kind.NAMED_BY for kind in all_targets().values()}
    formats = all_formats()
    of_formats = {key for kind in formats.values() for key in kind.KEYS}
    return "\n".join(
        (
            _HEAD,
            "## The file\n",
            *_table((NAME, *CLUSTER_KEYS, *MORE_KEYS)),
            "\nThe long form names several sources, flows and targets:\n",
            *_table(LONG_FORM),
            "\nThe short form has one of each:\n",
            *_table(SHORT_FORM),
            "\n## Sources\n",
            "A source has exactly one key that names its place:\n",
            *_table_of_required(key for kind in sources for key in kind.NAMED_BY),
            "\nEvery source:\n",
            *_table(COMMON_KEYS),
            "\nSome sources; those of their [format](#formats) come in addition:\n",
            *_table_of_kinds({f"`{name}`": kind.KEYS for kind, name in sources.items()}, of_formats),
            "\n## Formats\n",
            "Of a source, and, for `avro`, `protobuf` and `json`, of a target that is a topic:\n",
            *_table_of_kinds({f"`{name}`": kind.KEYS for name, kind in formats.items()}, ()),
            "\n## Flows\n",
            "A flow is a text with one SELECT, or a mapping with one of:\n",
            *_table_of_required(FLOW_KEYS),
            "\n## Targets\n",
            "A target has exactly one key that names its place:\n",
            *_table_of_required(targets.values()),
            "\nMore keys:\n",
            *_table_of_kinds(
                {"all": (FROM,), **{f"`{name}`": kind.KEYS for kind, name in targets.items()}}, of_formats
            ),
            "\n## Tests\n",
            "Each [test](running.md#tests) in `tests`:\n",
            *_table_of_required(CASE_KEYS),
            "\n## A cluster\n",
            "`cluster` names a profile, or has settings of Kafka's clients\n"
            "([examples](operating.md#secured-clusters)):\n",
            *_table((PROFILE,)),
            "",
            _list(CLIENT_SETTINGS),
            "\n## A schema registry\n",
            "`registry` as a mapping has settings of Confluent's clients\n"
            "([example](../../use/registry.md#logins-roles-and-tls)):\n",
            _list(REGISTRY_SETTINGS),
            "",
        )
    )


def _table(keys: Iterable[Key]) -> Iterator[str]:
    yield from ("| key | value | default | meaning |", "|---|---|---|---|")
    for key in keys:
        yield f"| {' | '.join(_cells(key))} |"


def _table_of_required(keys: Iterable[Key]) -> Iterator[str]:
    """A table of keys of which one is required, so without a column for defaults."""
    yield from ("| key | value | meaning |", "|---|---|---|")
    for key in keys:
        own, values, _, meaning = _cells(key)
        yield f"| {own} | {values} | {meaning} |"


def _table_of_kinds(kinds: Mapping[str, Sequence[Key]], left_out: Iterable[Key]) -> Iterator[str]:
    """`kinds`: the keys of each kind, by its name. A key object that several kinds share is one row."""
    declared: dict[int, tuple[Key, list[str]]] = {}
    for name, keys in kinds.items():
        for key in keys:
            if key not in left_out:
                declared.setdefault(id(key), (key, []))[1].append(name)
    yield from ("| key | of | value | default | meaning |", "|---|---|---|---|---|")
    for key, names in declared.values():
        own, *rest = _cells(key)
        yield f"| {' | '.join((own, _names(names, len(kinds)), *rest))} |"


def _names(names: Sequence[str], count: int) -> str:
    return "all" if len(names) >= count - 1 > 2 else ", ".join(names)


def _cells(key: Key) -> tuple[str, str, str, str]:
    cells = (f"`{key}`", key.values, key.default_in_words(), key.meaning)
    own, values, default, meaning = (cell.replace("|", "\\|") for cell in cells)
    return own, values, default, meaning


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."


if __name__ == "__main__":
    print(keys_page(), end="")
