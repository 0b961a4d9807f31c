"""A configuration with all settings and their errors, as PUT /connector-plugins/NAME/config/validate answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from moldau.connect.configuration import Checked, ConfigError, Kind, Setting, as_text, check, unknown
from moldau.connect.contract import shared_settings
from moldau.connect.contract.describing import Description, describe, is_sink_config
from moldau.connect.contract.finding import find
from moldau.connect.converting.converter import Role
from moldau.connect.converting.named import class_of
from moldau.connect.transforming.chain import alias_errors, check_chain

Answer = dict[str, object]

_CONVERTERS: Final = {
    Role.KEY: shared_settings.KEY_CONVERTER,
    Role.VALUE: shared_settings.VALUE_CONVERTER,
    Role.HEADER: shared_settings.HEADER_CONVERTER,
}


def validate(config: Mapping[str, str | None], defaults: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """`defaults`: the worker's, by setting. The class that is missing or unknown is an error of `connector.class`; the
    other settings are still checked."""
    texts = {name: value for name, value in config.items() if value is not None}
    name = texts.get(shared_settings.CLASS, "")
    errors: dict[str, list[str]] = {}
    description: Description | None = None
    try:
        description = describe(find(name)) if name else None
    except ConfigError as error:
        _add(errors, error.errors)
    is_sink = description is not None and is_sink_config(description, texts)
    own = None if description is None else description.settings
    settings = [
        replace(one, default=defaults[one.name]) if one.name in defaults else one
        for one in (*shared_settings.shared(description is not None and not is_sink, is_sink, own or ()), *(own or ()))
    ]
    if is_sink:
        _add(errors, shared_settings.topic_errors(texts))
    _add(errors, alias_errors(config))
    found = check(settings, config)
    found += _of_converters(config, errors)
    found += check_chain(config)
    if own is not None:
        found += _unknown(settings, config)
    return report(name, [_with_errors(one, errors) for one in found])


def _of_converters(config: Mapping[str, str | None], errors: dict[str, list[str]]) -> list[Checked]:
    """The settings of the converters that the configuration names."""
    found: list[Checked] = []
    for role, key in _CONVERTERS.items():
        name = config.get(key)
        if name is None:
            continue
        try:
            settings = class_of(name, role, key).settings
        except ConfigError as error:
            _add(errors, error.errors)
        except ModuleNotFoundError as error:
            _add(errors, {key: (f"{name}: {error}",)})
        else:
            prefix = f"{key}."
            given = {one: text for one, text in config.items() if one.startswith(prefix)}
            found += check([replace(one, name=prefix + one.name, group=key) for one in settings], given)
    return found


def definition(setting: Setting) -> Answer:
    """ConfigDef's fields."""
    return {
        "name": setting.name,
        "type": setting.kind.value,
        "required": setting.is_required,
        "default_value": None if setting.is_required else as_text(setting.kind, setting.default),
        "importance": setting.importance.value,
        "documentation": setting.documentation,
        "group": setting.group,
        "width": setting.width,
        "display_name": setting.display_name or setting.name,
        "dependents": list(setting.dependents),
        "order": setting.order,
    }


def _unknown(settings: Sequence[Setting], config: Mapping[str, str | None]) -> list[Checked]:
    """Names that neither the connector nor its converters and transforms may know."""
    parts = (
        shared_settings.KEY_CONVERTER,
        shared_settings.VALUE_CONVERTER,
        shared_settings.HEADER_CONVERTER,
        shared_settings.TRANSFORMS,
    )
    prefixes = (*shared_settings.PASSED_ON, *(f"{part}." for part in (*parts, shared_settings.PREDICATES)))
    given = {name: value for name, value in config.items() if not name.startswith(prefixes)}
    return [
        Checked(Setting(name, Kind.STRING, None), config[name], errors=(sentence,))
        for name, sentence in unknown(settings, given).items()
    ]


def _add(errors: dict[str, list[str]], more: Mapping[str, Sequence[str]]) -> None:
    for name, sentences in more.items():
        errors.setdefault(name, []).extend(sentences)


def _with_errors(found: Checked, errors: Mapping[str, Sequence[str]]) -> Checked:
    more = [one for one in errors.get(found.setting.name, ()) if one not in found.errors]
    return replace(found, errors=(*found.errors, *more))


def report(name: str, found: Sequence[Checked]) -> Answer:
    """Kafka Connect's answer of a validation."""
    groups = dict.fromkeys(one.setting.group for one in found if one.setting.group)
    return {
        "name": name,
        "error_count": sum(len(one.errors) for one in found),
        "groups": list(groups),
        "configs": [{"definition": definition(one.setting), "value": _value(one)} for one in found],
    }


def _value(found: Checked) -> Answer:
    return {
        "name": found.setting.name,
        "value": found.value,
        "recommended_values": list(found.recommended),
        "errors": list(found.errors),
        "visible": True,
    }
