"""Feature levels as `kafka-features` and `kafka-storage` read and print them."""

from __future__ import annotations

from moldau.cli.kafka.options import ArgumentError
from moldau.core.metadata import releases
from moldau.core.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES

_MAX_LEVELS = {feature.name: feature.max_level for feature in SUPPORTED_FEATURES}


def level_name(feature: str, level: int) -> str:
    return releases.metadata_version_name(level) if feature == METADATA_VERSION else str(level)


def known_level(release: str, *, is_stable: bool = False) -> int:
    """The level of a release or a `metadata.version`; `is_stable`: only of one that Kafka has published. Raises
    ArgumentError."""
    level = releases.metadata_version_level(release)
    names = releases.METADATA_VERSION_NAMES
    if is_stable:
        names = tuple(name for name in names if releases.is_stable(name))
    if level is None or level_name(METADATA_VERSION, level) not in names:
        raise ArgumentError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(names)}")
    return level


def feature_and_level(text: str) -> tuple[str, int]:
    """Parses `feature=level`. Raises ArgumentError."""
    name, equals, level = text.partition("=")
    if not equals:
        raise ArgumentError(f"Can't parse feature=level string {text}: equals sign not found.")
    number = short(level)
    if number is None:
        raise ArgumentError(f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short.")
    return name.strip(), number


def short(text: str) -> int | None:
    """A 16-bit number; None for any other text."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or not -(1 << 15) <= int(text) < 1 << 15:
        return None
    return int(text)


def print_mapping(release: str | None) -> None:
    """Prints the default level of each feature in this release; None: for new directories. Raises ArgumentError."""
    level = releases.FORMATTED_LEVEL if release is None else known_level(release)
    for name, default in releases.default_levels(level).items():
        print(f"{name}={default}" + (f" ({release or level_name(name, level)})" if name == METADATA_VERSION else ""))


def print_dependencies(name: str, level: int, absent: str) -> None:
    """Prints the requirements of a level of a feature. Raises ArgumentError, with the text `absent` if the level does
    not exist."""
    shown = f"{name}={level}"
    if name not in _MAX_LEVELS:
        raise ArgumentError(f"Unknown feature: {name}")
    if name == METADATA_VERSION:
        title = releases.metadata_version_name(level)
        if title == str(level):
            raise ArgumentError(f"Unknown metadata.version {level}")
        shown += f" ({title})"
    elif not 0 <= level <= _MAX_LEVELS[name]:
        raise ArgumentError(absent)
    required = releases.REQUIRED_METADATA_VERSION.get((name, level))
    if required is None:
        print(f"{shown} has no dependencies.")
    else:
        print(f"{shown} requires:\n    {METADATA_VERSION}={required} ({releases.metadata_version_name(required)})")


def levels_to_format(release: str | None, named: list[str], *, has_dynamic_quorum: bool) -> dict[str, int]:
    """The levels of a new cluster, including `kraft.version`: the defaults of a release, then those `named` as
    feature=level. `has_dynamic_quorum`: the log records its voters. Raises ArgumentError, in Kafka's words."""
    wanted = dict(map(feature_and_level, named))
    level = releases.FORMATTED_LEVEL if release is None else known_level(release, is_stable=True)
    if METADATA_VERSION in wanted:
        if release is not None:
            raise ArgumentError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
        level = wanted[METADATA_VERSION]
        title = releases.metadata_version_name(level)
        if title == str(level):
            first, last = releases.KNOWN_LEVELS
            raise ArgumentError(
                f"No MetadataVersion with feature level {level}. Valid feature levels are from {first} to {last}."
            )
        if not releases.is_stable(title):
            raise ArgumentError(f"{METADATA_VERSION} {title} is not yet stable.")
    for name in wanted:
        if name not in _MAX_LEVELS:
            others = ", ".join(sorted(known for known in _MAX_LEVELS if known != METADATA_VERSION))
            raise ArgumentError(f"Unsupported feature: {name}. Supported features are: {others}")
    _check_quorum(wanted.get(KRAFT_VERSION), has_dynamic_quorum=has_dynamic_quorum)
    defaults = releases.default_levels(level) | {KRAFT_VERSION: int(has_dynamic_quorum)}
    levels = defaults | wanted
    for name in sorted(levels):
        _check_level(name, levels[name], level)
    return levels


def _check_quorum(level: int | None, *, has_dynamic_quorum: bool) -> None:
    if level is None or bool(level) == has_dynamic_quorum:
        return
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used"
    if not level:
        raise ArgumentError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and {flags}. For dynamic controllers "
            "support, try removing the --feature flag for kraft.version."
        )
    raise ArgumentError(
        f"Cannot set kraft.version to {level} unless controller.quorum.voters is empty and {flags}. For dynamic "
        "controllers support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and "
        "removing controller.quorum.voters."
    )


def _check_level(name: str, level: int, metadata_level: int) -> None:
    if name == METADATA_VERSION:
        return
    if not 0 <= level <= _MAX_LEVELS[name]:
        raise ArgumentError(f"No feature:{name} with feature level {level}")
    required = releases.REQUIRED_METADATA_VERSION.get((name, level), 0)
    if metadata_level < required:
        raise ArgumentError(
            f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {required}"
        )
