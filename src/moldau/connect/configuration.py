"""Settings of connectors, converters, transforms and predicates: parsed and checked as Kafka's ConfigDef does.

A configuration is a mapping of texts. `parse` gives typed values or raises; `check` reports on every setting, for the
validation of Kafka Connect's REST API.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from moldau.errors import MoldauError


class Kind(StrEnum):
    """The type of a setting (ConfigDef.Type)."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(StrEnum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Required:
    """The default of a setting that must be given."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required()

_WHOLE = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}


class ConfigError(MoldauError):
    """A configuration that is rejected. `errors` has the sentences by the name of the setting."""

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        self.errors = {name: tuple(found) for name, found in errors.items()}
        super().__init__("; ".join(sentence for found in self.errors.values() for sentence in found))


@dataclass(frozen=True, slots=True)
class Secret:
    """The value of a PASSWORD. Only `text` shows it."""

    text: str = field(repr=False)

    def __str__(self) -> str:
        return "[hidden]"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting (ConfigDef.ConfigKey).

    `check` gets the name and the typed value, and raises ValueError with a sentence of its own. `recommended` gives the
    values that a form offers, from the whole configuration.
    """

    name: str
    kind: Kind
    default: object = REQUIRED
    importance: Importance = Importance.MEDIUM
    documentation: str = ""
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    check: Callable[[str, object], None] | None = None
    recommended: Callable[[Mapping[str, str]], Sequence[str]] | None = None

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Checked:
    """What `check` finds out about one setting. `value`: its text, None where it has none."""

    setting: Setting
    value: str | None
    recommended: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def parse(settings: Sequence[Setting], given: Mapping[str, str | None], prefix: str = "") -> dict[str, object]:
    """The typed value of each setting, by its name without the prefix.

    Unknown names are left to the caller (`unknown`), as Kafka's own parser leaves them.
    Raises ConfigError with the errors of all settings.
    """
    values: dict[str, object] = {}
    errors: dict[str, Sequence[str]] = {}
    for setting in settings:
        try:
            values[setting.name] = _value(setting, given, prefix)
        except ValueError as error:
            errors[prefix + setting.name] = (str(error),)
    if errors:
        raise ConfigError(errors)
    return values


def check(settings: Sequence[Setting], given: Mapping[str, str | None], prefix: str = "") -> list[Checked]:
    """Every setting with its value and its errors, in the order of `settings`."""
    texts = {name: value for name, value in given.items() if value is not None}
    found = []
    for setting in settings:
        text = given.get(prefix + setting.name)
        try:
            value = _value(setting, given, prefix)
            errors: tuple[str, ...] = ()
            shown = text if text is not None else as_text(setting.kind, value)
        except ValueError as error:
            errors, shown = (str(error),), text
        recommended = tuple(setting.recommended(texts)) if setting.recommended else ()
        found.append(Checked(setting, shown, recommended, errors))
    return found


def unknown(settings: Sequence[Setting], given: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """A sentence, with the nearest name, for each given name that no setting has."""
    names = [prefix + setting.name for setting in settings]
    sentences = {}
    for name in given:
        if name.startswith(prefix) and name not in names:
            near = difflib.get_close_matches(name, names, 1)
            sentences[name] = f"Unknown configuration '{name}'" + (f", did you mean '{near[0]}'?" if near else "")
    return sentences


def as_text(kind: Kind, value: object) -> str | None:
    """The value as Kafka writes it: lists with commas, booleans in lower case, secrets hidden."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(str(one) for one in value)
        case _:
            return str(value)


def _value(setting: Setting, given: Mapping[str, str | None], prefix: str) -> object:
    """Raises ValueError with Kafka's sentence."""
    name = prefix + setting.name
    if name in given:
        value = _typed(name, given[name], setting.kind)
    elif setting.is_required:
        raise ValueError(f'Missing required configuration "{name}" which has no default value.')
    else:
        value = setting.default
    if setting.check is not None:
        setting.check(name, value)
    return value


def _typed(name: str, text: str | None, kind: Kind) -> object:
    if text is None:
        return None
    trimmed = text.strip()
    match kind:
        case Kind.BOOLEAN:
            if trimmed.lower() in ("true", "false"):
                return trimmed.lower() == "true"
            raise ValueError(wrong(name, text, "Expected value to be either true or false"))
        case Kind.INT | Kind.SHORT | Kind.LONG:
            return _whole(name, text, kind)
        case Kind.DOUBLE:
            try:
                return float(trimmed)
            except ValueError:
                raise ValueError(wrong(name, trimmed, f"Not a number of type {kind}")) from None
        case Kind.LIST:
            return [one.strip() for one in trimmed.split(",")] if trimmed else []
        case Kind.PASSWORD:
            return Secret(trimmed)
        case _:
            return trimmed


def _whole(name: str, text: str, kind: Kind) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        number = 1 << 64
    if not -(1 << _WHOLE[kind]) <= number < 1 << _WHOLE[kind]:
        raise ValueError(wrong(name, text.strip(), f"Not a number of type {kind}"))
    return number


def wrong(name: str, value: object, reason: str) -> str:
    """Kafka's sentence about a value (ConfigException)."""
    return f"Invalid value {value} for configuration {name}: {reason}"


def in_range(least: float | None = None, most: float | None = None) -> Callable[[str, object], None]:
    """A check of a number (ConfigDef.Range)."""

    def checked(name: str, value: object) -> None:
        if not isinstance(value, int | float):
            raise ValueError(wrong(name, value, "Value must be non-null"))
        if least is not None and value < least:
            raise ValueError(wrong(name, value, f"Value must be at least {least}"))
        if most is not None and value > most:
            raise ValueError(wrong(name, value, f"Value must be no more than {most}"))

    return checked


def one_of(*allowed: str, ignore_case: bool = False) -> Callable[[str, object], None]:
    """A check of a text (ConfigDef.ValidString)."""

    def checked(name: str, value: object) -> None:
        names, given = allowed, str(value)
        if ignore_case:
            names, given = tuple(one.upper() for one in allowed), given.upper()
        if given not in names:
            words = "String must be one of (case insensitive)" if ignore_case else "String must be one of"
            raise ValueError(wrong(name, value, f"{words}: {', '.join(names)}"))

    return checked


def not_empty(name: str, value: object) -> None:
    """A check of a text (ConfigDef.NonEmptyString)."""
    if value == "":
        raise ValueError(wrong(name, "", "String must be non-empty"))
