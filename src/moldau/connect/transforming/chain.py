"""The chain of a connector's transforms: `transforms=a,b`, `transforms.a.type`, `transforms.a.predicate` (KIP-66,
KIP-585)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from moldau.connect.configuration import (
    REQUIRED,
    Checked,
    ConfigError,
    Importance,
    Kind,
    Setting,
    check,
    parse,
    unknown,
    wrong,
)
from moldau.connect.data.record import Record
from moldau.connect.transforming.named import (
    PREDICATES,
    PREDICATES_PACKAGE,
    TRANSFORMS,
    TRANSFORMS_PACKAGE,
    PredicateKind,
    TransformKind,
    UnknownNameError,
    predicate_kind,
    transform_kind,
)
from moldau.connect.transforming.parts import Given, Predicate, Transform

Config = Mapping[str, str | None]
_Errors = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A transform that runs where its predicate holds, or, negated, where it does not."""

    name: str
    transform: Transform
    predicate: Predicate | None = None
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    steps: tuple[Step, ...] = ()

    def apply(self, record: Record) -> Record | None:
        """None: a transform left the record out. Raises DataError; a transform in Python may raise anything."""
        found: Record | None = record
        for step in self.steps:
            if found is None:
                return None
            if step.predicate is None or step.predicate(found) is not step.is_negated:
                found = step.transform(found)
        return found


def chain_of(config: Config) -> Chain:
    """The chain that a connector's configuration describes. Raises ConfigError with all errors, by setting."""
    errors: _Errors = {}
    predicates = {name: _predicate(name, config, errors) for name in _aliases("predicates", config, errors)}
    steps = [_step(name, config, predicates, errors) for name in _aliases("transforms", config, errors)]
    if errors:
        raise ConfigError(errors)
    return Chain(tuple(step for step in steps if step is not None))


def check_chain(config: Config) -> list[Checked]:
    """The settings of all transforms and predicates of a configuration, with their errors, for a validation.

    Errors of `transforms` and `predicates` themselves are not here: `alias_errors`.
    """
    settings = settings_of(config)
    try:
        chain_of(config)
        errors: Mapping[str, Sequence[str]] = {}
    except ConfigError as error:
        errors = error.errors
    found = [replace(one, errors=tuple(errors.get(one.setting.name, ()))) for one in check(settings, config)]
    known = {one.setting.name for one in found} | {"transforms", "predicates"}
    others = [name for name in errors if name not in known]
    return found + [
        Checked(Setting(name, Kind.STRING, None), config.get(name), (), tuple(errors[name])) for name in others
    ]


def alias_errors(config: Config) -> dict[str, tuple[str, ...]]:
    """The errors of `transforms` and `predicates`."""
    errors: _Errors = {}
    for name in ("transforms", "predicates"):
        _aliases(name, config, errors)
    return {name: tuple(found) for name, found in errors.items()}


def settings_of(config: Config) -> list[Setting]:
    """The settings of all transforms and predicates of a configuration, with their full names. Those of a type that is
    unknown are left out."""
    settings: list[Setting] = []
    for alias in _aliases("transforms", config, {}):
        prefix, group = f"transforms.{alias}.", f"Transforms: {alias}"
        settings.append(
            _type_setting(prefix, group, f"Transformation type for {alias}", TRANSFORMS, TRANSFORMS_PACKAGE)
        )
        kind = _known_transform(config.get(f"{prefix}type"))
        if kind is not None:
            settings += _embedded((*kind.settings, *_condition(config)), prefix, group)
    for alias in _aliases("predicates", config, {}):
        prefix, group = f"predicates.{alias}.", f"Predicates: {alias}"
        settings.append(_type_setting(prefix, group, f"Predicate type for {alias}", PREDICATES, PREDICATES_PACKAGE))
        try:
            settings += _embedded(predicate_kind(config.get(f"{prefix}type") or "").settings, prefix, group)
        except UnknownNameError:
            pass
    return settings


def _known_transform(name: str | None) -> TransformKind | None:
    try:
        return transform_kind(name or "")
    except UnknownNameError:
        return None


def _type_setting(prefix: str, group: str, title: str, known: Mapping[str, object], package: str) -> Setting:
    names = [package + name for name in sorted(known)]
    return Setting(
        f"{prefix}type",
        Kind.CLASS,
        REQUIRED,
        Importance.HIGH,
        "Kafka's name of the class, its short name, or module:function for a transform of your own."
        if prefix.startswith("transforms")
        else "Kafka's name of the class, or its short name.",
        group,
        0,
        "LONG",
        title,
        recommended=lambda config: names,
    )


def _embedded(settings: Sequence[Setting], prefix: str, group: str) -> list[Setting]:
    """In Kafka's order: required ones first, then by importance and name."""
    ranks = list(Importance)
    ordered = sorted(settings, key=lambda one: (not one.is_required, ranks.index(one.importance), one.name))
    return [
        replace(one, name=prefix + one.name, group=group, order=place, display_name=one.name)
        for place, one in enumerate(ordered, 1)
    ]


def _condition(config: Config) -> tuple[Setting, Setting]:
    aliases = _aliases("predicates", config, {})
    return (
        Setting(
            "predicate",
            Kind.STRING,
            None,
            Importance.MEDIUM,
            "The alias of the predicate that decides for each record whether the transform runs.",
            recommended=lambda _: aliases,
        ),
        Setting(
            "negate",
            Kind.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether the transform runs where the predicate does not hold.",
        ),
    )


def _aliases(name: str, config: Config, errors: _Errors) -> list[str]:
    text = (config.get(name) or "").strip()
    aliases = [one.strip() for one in text.split(",")] if text else []
    if len(set(aliases)) != len(aliases):
        errors.setdefault(name, []).append(wrong(name, f"[{', '.join(aliases)}]", "Duplicate alias provided."))
    if "" in aliases:
        errors.setdefault(name, []).append(wrong(name, f"[{', '.join(aliases)}]", "An alias is empty."))
    return list(dict.fromkeys(one for one in aliases if one))


def _type_name(prefix: str, config: Config, errors: _Errors) -> str | None:
    name = config.get(f"{prefix}type")
    if name is None or not name.strip():
        sentence = f'Missing required configuration "{prefix}type" which has no default value.'
        errors.setdefault(f"{prefix}type", []).append(sentence)
        return None
    return name.strip()


def _own_values(
    kind: TransformKind | PredicateKind, prefix: str, config: Config, others: tuple[str, ...], errors: _Errors
) -> Given | None:
    """The values of the type's own settings; None after an error."""
    given = {name: text for name, text in config.items() if name not in {prefix + one for one in others}}
    for name, sentence in unknown(kind.settings, given, prefix).items():
        errors.setdefault(name, []).append(sentence)
    try:
        return Given(parse(kind.settings, given, prefix))
    except ConfigError as error:
        for name, sentences in error.errors.items():
            errors.setdefault(name, []).extend(sentences)
        return None


def _predicate(alias: str, config: Config, errors: _Errors) -> Predicate | None:
    prefix = f"predicates.{alias}."
    name = _type_name(prefix, config, errors)
    if name is None:
        return None
    try:
        kind = predicate_kind(name)
    except UnknownNameError as error:
        errors.setdefault(f"{prefix}type", []).append(wrong(f"{prefix}type", name, str(error)))
        return None
    given = _own_values(kind, prefix, config, ("type",), errors)
    return None if given is None else kind.make(given)


def _step(alias: str, config: Config, predicates: Mapping[str, Predicate | None], errors: _Errors) -> Step | None:
    prefix = f"transforms.{alias}."
    name = _type_name(prefix, config, errors)
    predicate, is_negated = _condition_of(prefix, config, predicates, errors)
    if name is None:
        return None
    try:
        kind = transform_kind(name)
    except UnknownNameError as error:
        errors.setdefault(f"{prefix}type", []).append(wrong(f"{prefix}type", name, str(error)))
        return None
    given = _own_values(kind, prefix, config, ("type", "predicate", "negate"), errors)
    if given is None:
        return None
    try:
        return Step(alias, kind.make(given), predicate, is_negated)
    except ConfigError as error:
        for setting, sentences in error.errors.items():
            errors.setdefault(prefix + setting, []).extend(sentences)
        return None


def _condition_of(
    prefix: str, config: Config, predicates: Mapping[str, Predicate | None], errors: _Errors
) -> tuple[Predicate | None, bool]:
    negate, name = f"{prefix}negate", f"{prefix}predicate"
    is_negated = False
    try:
        is_negated = bool(parse([Setting(negate, Kind.BOOLEAN, False)], config)[negate])
    except ConfigError as error:
        errors.setdefault(negate, []).extend(error.errors[negate])
    alias = config.get(name)
    if alias is None:
        if config.get(negate) is not None:
            sentence = (
                f"Config '{negate}' was provided but there is no config '{name}' defining a predicate to be negated."
            )
            errors.setdefault(negate, []).append(sentence)
        return None, is_negated
    if alias.strip() not in predicates:
        near = difflib.get_close_matches(alias.strip(), list(predicates), 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        sentence = wrong(name, alias, f"The predicate is not in 'predicates'.{hint}")
        errors.setdefault(name, []).append(sentence)
        return None, is_negated
    return predicates[alias.strip()], is_negated
