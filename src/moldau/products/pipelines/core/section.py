"""One mapping of a pipeline file. Rejects an invalid key with its line.

`${NAME}` in a text of the pipeline file is the value of that parameter (see `core.parameters`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import yaml
from yaml.constructor import ConstructorError

from moldau.errors import MoldauError
from moldau.products.pipelines.core.parameters import UnknownParameterError, fill
from moldau.types import nearest

UNITS_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_INTERVAL = re.compile(rf"(\d{{1,9}}) ({'|'.join(UNITS_MS)})s?")

OBJECT_STORE = "s3://[^/]+"
"""The beginning of an address in an object store."""

SPEC = "the pipeline file"
"""The name of the outermost mapping. The name of an inner mapping is the path of keys to it."""


class SpecError(MoldauError):
    """The pipeline file is invalid; the message begins with the file and the line."""


_OF_JSON = ("null", "bool", "int", "float", "seq", "map")
_AS_TEXT = ("str", "timestamp", "value")
_DECIMAL = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_TAG = "tag:yaml.org,2002:"


class _Values(yaml.SafeLoader):
    """Builds values from YAML nodes, of JSON's kinds only. `text_of` gives the text of a node."""

    yaml_constructors = {  # noqa: RUF012 - PyYAML's own table, which it looks up on the class
        **{_TAG + name: yaml.SafeLoader.yaml_constructors[_TAG + name] for name in _OF_JSON},
        **{_TAG + name: lambda loader, node: loader.text_of(node) for name in _AS_TEXT},
        None: yaml.SafeLoader.yaml_constructors[None],
    }

    def __init__(self, text_of: Callable[[yaml.ScalarNode], str]) -> None:
        super().__init__("")
        self.text_of = text_of

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:
            # for `!!int x`, `!!float ''` and `!!bool x`, PyYAML raises Python's own error, which has no line
            kind = node.tag.removeprefix(_TAG)
            raise ConstructorError(None, None, f"`{node.value}` is no {kind}", node.start_mark) from error


class _ExactValues(_Values):
    yaml_constructors = {  # noqa: RUF012
        **_Values.yaml_constructors,
        _TAG + "float": lambda loader, node: loader.decimal_of(node),
    }

    def decimal_of(self, node: yaml.ScalarNode) -> object:
        """A value without digits, such as `.inf`, stays a float."""
        text = node.value.replace("_", "")
        return Decimal(text) if re.fullmatch(_DECIMAL, text) else self.construct_yaml_float(node)


class Section:
    """One mapping of the pipeline file, with the lines of its keys."""

    def __init__(self, file_name: str, name: str, node: yaml.Node, parameters: Mapping[str, str] | None = None) -> None:
        self.file_name = file_name
        self.name = name
        self._parameters = parameters or {}
        self._line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            self.refuse(None, "must be `key: value` lines")
        self._lines: dict[str, int] = {}
        self._nodes: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in self._nodes:
                self._lines[key] = key_node.start_mark.line + 1
                self.refuse(key, "is given twice")
            self._lines[key] = key_node.start_mark.line + 1
            self._nodes[key] = value_node

    def allow(self, *keys: str) -> None:
        for key in self._nodes:
            if key not in keys:
                near = nearest(key, keys)
                hint = f" (did you mean `{near}`?)" if near else ""
                self.refuse(key, f"is not known here{hint}; known are {', '.join(keys)}")

    def has(self, key: str) -> bool:
        return key in self._nodes

    def entries(self) -> list[str]:
        """The keys, in the order of the pipeline file."""
        return list(self._nodes)

    def line_of(self, key: str) -> int:
        """The line of the key, or of the mapping if the key is absent."""
        return self._lines.get(key, self._line)

    def is_text(self, key: str) -> bool:
        return isinstance(self._nodes.get(key), yaml.ScalarNode)

    def text(self, key: str, default: str | None = None, *, may_be_blank: bool = False) -> str:
        """A scalar, as its text. Without a default the key is required and must not be empty. `may_be_blank`: accepts
        and keeps blanks."""
        node = self._nodes.get(key)
        if node is None:
            if default is None:
                self.refuse(key, "is missing", line=self._line)
            return default
        if not isinstance(node, yaml.ScalarNode) or not (str(node.value) if may_be_blank else str(node.value).strip()):
            self.refuse(key, "must be a text")
        # a block (`key: |`) begins on the line after its key
        line = node.start_mark.line + (2 if node.style in ("|", ">") else 1)
        text = self.fill(key, str(node.value), line)
        return text if may_be_blank else text.strip()

    def text_as_written(self, key: str) -> str:
        """As `text`, with `${NAME}` not replaced."""
        node = self._nodes.get(key)
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self.refuse(key, "must be a text")
        return str(node.value).strip()

    def value_of(self, parameter: str) -> str | None:
        """The value of `${PARAMETER}`; None if it has none."""
        return self._parameters.get(parameter)

    def fill(self, key: str, text: str, line: int, file_name: str | None = None) -> str:
        """The text with its parameters replaced. `line`: where the text begins. `file_name`: if it comes from another
        file."""
        try:
            return fill(text, self._parameters)
        except UnknownParameterError as error:
            where = f"{file_name or self.file_name}:{line + error.lines}"
            reason = (
                f"`${{{error.name}}}` in `{key}` has no value: give one with `--set {error.name}=VALUE`, or set it "
            )
            reason += "in the environment (`\\${...}` stands for `${...}` itself)"
            raise SpecError(f"{where}: {reason}") from None

    def names(self, key: str) -> tuple[str, ...]:
        """A text, or a list of distinct texts; () if the key is absent."""
        node = self._nodes.get(key)
        if not isinstance(node, yaml.SequenceNode):
            return (self.text(key),) if node is not None else ()
        found = tuple(self._filled(key, one).strip() if isinstance(one, yaml.ScalarNode) else "" for one in node.value)
        if not found or not all(found) or len(set(found)) < len(found):
            self.refuse(key, "must be a text, or a list of different texts")
        return found

    def number(self, key: str, default: int, *, least: int, most: int) -> int:
        text = self.text(key, default=str(default))
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            self.refuse(key, f"must be a number from {least} to {most}, not `{text}`")
        return int(text)

    def values(self, key: str, *, exact: bool = False) -> list[object]:
        """A list of JSON values; times stay texts. `exact`: with decimals for floats."""
        node = self._nodes.get(key)
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(key, "must be a list")
        made = (_ExactValues if exact else _Values)(lambda one: self._filled(key, one))
        try:
            # with `deep`, PyYAML rejects a list that contains itself by an alias; otherwise it would build one
            return [made.construct_object(one, deep=True) for one in node.value]
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            self.refuse(key, f"has a value that JSON cannot hold: {error.problem}", line=line)
        except RecursionError as error:
            self.refuse(key, f"has a value that JSON cannot hold: {error}")

    def _filled(self, key: str, node: yaml.ScalarNode) -> str:
        return self.fill(key, str(node.value), node.start_mark.line + 1)

    def topic(self, key: str) -> str:
        name = self.text(key)
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            self.refuse(key, f"is no name of a topic: `{name}`")
        return name

    def web_address(self, key: str, example: str) -> str:
        """An address for requests, without user and password. `example`: one for the message."""
        text = self.text(key)
        if not _is_web_address(text):
            self.refuse(key, f"must be an address such as {example}, in ASCII, without user and password")
        return text

    def interval_ms(self, key: str, default: int) -> int:
        if not self.has(key):
            return default
        text = self.text(key)
        found = _INTERVAL.fullmatch(text)
        if found is None:
            self.refuse(key, f"must be a time such as `10 seconds`, not `{text}`")
        return int(found[1]) * UNITS_MS[found[2]]

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default=default)
        if value not in choices:
            near = nearest(value, choices)
            hint = f"; did you mean `{near}`?" if near else ""
            self.refuse(key, f"must be one of {', '.join(choices)}, not `{value}`{hint}")
        return value

    def section(self, key: str) -> Section:
        node = self._nodes.get(key)
        if node is None:
            self.refuse(key, "is missing", line=self._line)
        return Section(self.file_name, f"{key}" if self.name == SPEC else f"{self.name}.{key}", node, self._parameters)

    def local_path(self, key: str, directory: Path, default: str | None = None) -> Path:
        """A path, relative to `directory`."""
        text = self.text(key, default=default)
        if "://" in text or text.startswith("file:") or "\0" in text:
            self.refuse(key, f"must be a path on this machine, not `{text}`")
        try:
            return directory / Path(text).expanduser()
        except RuntimeError:
            self.refuse(key, f"begins with the home of a user that is not on this machine: `{text}`")

    def place(self, key: str, directory: Path, default: str | None = None) -> str:
        """A path relative to `directory`, an absolute path, or the address of a folder in an object store."""
        text = self.text(key, default=default)
        if re.match(OBJECT_STORE, text):
            return text.rstrip("/")
        return str(self.local_path(key, directory, default).absolute())

    def refuse(self, key: str | None, reason: str, *, line: int | None = None) -> NoReturn:
        at = line or (self.line_of(key) if key is not None and hasattr(self, "_lines") else self._line)
        what = f"`{key}`" if key is not None else self.name if self.name == SPEC else f"`{self.name}`"
        raise SpecError(f"{self.file_name}:{at}: {what} {reason}")


def _is_web_address(text: str) -> bool:
    if not text.isascii() or not re.fullmatch(r"https?://[^\s/@]+(/[^\s]*)?", text):
        return False
    try:
        parts = urlsplit(text)
        return parts.hostname is not None and parts.port != 0
    except ValueError:  # an invalid port, or an invalid address in brackets
        return False
