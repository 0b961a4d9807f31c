"""Reads flags as Kafka's tools do (jopt-simple): no abbreviations, `--flag value` or `--flag=value`.

Surplus words are ignored. argparse differs in each of these points, and in the exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Literal

import msgspec

KAFKA_VERSION = "4.4.0"
"""The Kafka version of these flags, columns and exit codes. `--version` prints it, and scripts compare it."""

_HELP_COLUMN = 41
_HELP_WIDTH = 100


class UsageError(Exception):
    """The flags contradict each other: the sentence and the list of flags go to standard error, exit code 1."""


class ArgumentError(Exception):
    """A flag has an invalid value; each tool reports it in its own way, as Kafka's does."""


class Option(msgspec.Struct, frozen=True):
    """One flag, without its dashes. `argument`: the name of its value in the help, "" if it takes none. `short`: its
    letter after a single dash."""

    name: str
    help: str
    argument: str = ""
    is_argument_optional: bool = False
    is_list: bool = False
    """Later words are further values, unless they are flags."""
    kind: Literal["text", "int", "long"] = "text"
    default: str | None = None
    is_required: bool = False
    is_deprecated: bool = False
    short: str = ""


def common_options(*, has_commands: bool = False, has_version: bool = True) -> tuple[Option, ...]:
    """`has_commands`: these flags also have a letter."""
    asked = Option("help", "Print this list of flags.", short="h" if has_commands else "")
    version = Option(
        "version", "Print the version of Kafka's tools that this one follows.", short="v" if has_commands else ""
    )
    return (asked, version) if has_version else (asked,)


def bootstrap_server(*, is_required: bool = True, short: str = "") -> Option:
    help_text, argument = "The brokers to connect to.", "server to connect to"
    return Option("bootstrap-server", help_text, argument, is_required=is_required, short=short)


def command_config(*, short: str = "") -> Option:
    return Option("command-config", "A file of client settings, one name=value a line.", "config file", short=short)


class Arguments:
    """The flags that were given, and the words that belong to no flag."""

    def __init__(
        self, options: Sequence[Option], in_order: Sequence[tuple[str, str | None]], words: Sequence[str] = ()
    ) -> None:
        self.words = words
        self._options = {option.name: option for option in options}
        self.in_order = in_order
        """(flag, its value or None) as they were written."""
        self._given: dict[str, list[str | None]] = {}
        for name, value in in_order:
            self._given.setdefault(name, []).append(value)

    def has(self, *names: str) -> bool:
        """True if any of the flags was given."""
        return any(name in self._given for name in names)

    def has_value(self, name: str) -> bool:
        return any(value is not None for value in self._given.get(name, ()))

    def text(self, name: str) -> str | None:
        """The flag's single value, or its default. Raises ArgumentError for a repeated flag."""
        values = self.texts(name)
        if len(values) > 1:
            raise ArgumentError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else self._options[name].default

    def required(self, name: str) -> str:
        value = self.text(name)
        if value is None:
            raise ArgumentError(f"Option {name} requires an argument")
        return value

    def texts(self, name: str) -> list[str]:
        """All values of a flag that may be repeated, without its default."""
        return [value for value in self._given.get(name, ()) if value is not None]

    def integer(self, name: str) -> int | None:
        """Raises ArgumentError for text other than a 32-bit (kind "int") or 64-bit number."""
        value = self.text(name)
        if value is None:
            return None
        if not is_number(value, 63 if self._options[name].kind == "long" else 31):
            raise ArgumentError(f"Cannot parse argument '{value}' of option {name}")
        return int(value)


def is_number(text: str, bits: int) -> bool:
    """Whether Java reads it as a whole number of that many bits, without the sign: 31 or 63."""
    return re.fullmatch(r"[-+]?[0-9]{1,400}", text) is not None and -(1 << bits) <= int(text) < 1 << bits


def split_list(text: str) -> list[str]:
    """The words between commas as Java splits them: trailing empty words are dropped."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words if words != [""] or not text else []


def parse(options: Sequence[Option], words: Sequence[str]) -> Arguments:
    """Reads the words after the tool's name. Raises ArgumentError with jopt-simple's sentence."""
    known = {option.name: option for option in options}
    known |= {option.short: option for option in options if option.short}
    given: list[tuple[str, str | None]] = []
    others: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            break
        if not _looks_like_an_option(word):
            others.append(word)
            continue
        *switches, (option, equals, value) = _split(word, known)
        given += [(switch.name, None) for switch, _, _ in switches]
        name = option.name
        if not option.argument:
            if equals and value:
                raise ArgumentError(f"Option {name} does not take an argument")
            given.append((name, None))
        elif value:
            given.append((name, value))
        elif position < len(words) and _takes(option, words[position]):
            given.append((name, words[position]))
            position += 1
            while option.is_list and position < len(words) and not _looks_like_an_option(words[position]):
                given.append((name, words[position]))
                position += 1
        elif option.is_argument_optional:
            given.append((name, None))
        else:
            raise ArgumentError(f"Option {name} requires an argument")
    return Arguments(options, given, others)


def _split(word: str, known: Mapping[str, Option]) -> list[tuple[Option, str, str]]:
    """The flags of one word, each with its equals sign and its value; only the last flag may have these.

    Kafka's tools also take one dash before a whole name (`-list`). Otherwise each letter after the dash is a flag, and
    the rest after the first flag that takes a value is its value (`-sg`, `-bHOST:PORT`).
    """
    name, equals, value = word.lstrip("-").partition("=") if word.startswith("--") else word[1:].partition("=")
    if name in known:
        return [(known[name], equals, value)]
    if word.startswith("--"):
        raise ArgumentError(f"{name} is not a recognized option")
    found: list[tuple[Option, str, str]] = []
    for position, letter in enumerate(word[1:], 2):
        if letter not in known:
            raise ArgumentError(f"{letter} is not a recognized option")
        option = known[letter]
        found.append((option, "", word[position:] if option.argument else ""))
        if option.argument:
            break
    return found


def _takes(option: Option, word: str) -> bool:
    """Whether the word after the flag is its value. For an optional number only a number counts, which may begin with a
    dash; for an optional text, any word that is no flag."""
    if not option.is_argument_optional:
        return True
    if option.kind == "text":
        return not _looks_like_an_option(word)
    return is_number(word, 63 if option.kind == "long" else 31)


def _looks_like_an_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


# --- rules between flags, in the words of Kafka's tools ---


def check_required(arguments: Arguments, *names: str) -> None:
    for name in names:
        if not arguments.has(name):
            raise UsageError(f'Missing required argument "[{name}]"')


def check_excluded(arguments: Arguments, used: str, *excluded: str) -> None:
    """`used` excludes the other flags."""
    if not arguments.has(used):
        return
    for name in excluded:
        if name != used and arguments.has(name):
            raise UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


# --- help ---


def usage(options: Sequence[Option]) -> str:
    """The flags in two columns, sorted."""
    lines = [f"{'Option':<{_HELP_COLUMN}}Description", f"{'------':<{_HELP_COLUMN}}-----------"]
    for option in sorted(options, key=lambda option: option.name):
        left = f"--{option.name}"
        if option.argument:
            left += f" [{option.argument}]" if option.is_argument_optional else f" <{option.argument}>"
        text = ("(DEPRECATED) " if option.is_deprecated else "") + ("REQUIRED: " if option.is_required else "")
        text += option.help + (f" (default: {option.default})" if option.default is not None else "")
        described = wrap(text, _HELP_WIDTH - _HELP_COLUMN)
        if len(left) >= _HELP_COLUMN:
            lines.append(left)
            left = ""
        lines.extend(
            f"{left if number == 0 else '':<{_HELP_COLUMN}}{line}".rstrip() for number, line in enumerate(described)
        )
    return "\n".join(lines)
