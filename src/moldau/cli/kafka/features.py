"""`kafka-features`: shows, upgrades and downgrades feature levels."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

from moldau.cli.kafka.connection import run_on_cluster
from moldau.cli.kafka.levels import (
    feature_and_level,
    known_level,
    level_name,
    print_dependencies,
    print_mapping,
)
from moldau.cli.kafka.options import (
    ArgumentError,
    Arguments,
    Option,
    UsageError,
    bootstrap_server,
    command_config,
)
from moldau.cli.kafka.subcommands import (
    BOOTSTRAP_CONTROLLER,
    ClusterCommand,
    OfflineCommand,
    check_connection,
    chosen_command,
)
from moldau.client.admin import features
from moldau.client.admin.client import ClusterAdmin
from moldau.core.metadata import releases
from moldau.core.metadata.features import METADATA_VERSION

SUMMARY = (
    "This tool manages feature flags in Kafka.\n\nusage: kafka-features --bootstrap-server HOST:PORT COMMAND ...\n\n"
    "commands: describe, upgrade, downgrade, disable, version-mapping, feature-dependencies"
)

OPTIONS = (
    bootstrap_server(is_required=False),
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option("node-id", "describe: ask this node.", "id", kind="int"),
    Option("feature", "A feature, or feature=level; may be repeated.", "feature[=level]"),
    Option("release-version", "The levels that belong to this release of Kafka, or to this metadata.version.", "name"),
    Option(
        "metadata", "upgrade, downgrade: as --release-version, of metadata.version alone.", "name", is_deprecated=True
    ),
    Option("dry-run", "upgrade, downgrade, disable: only check whether the change would succeed."),
    Option("unsafe", "downgrade, disable: also where metadata would be lost."),
)
_CHANGE = ("feature", "release-version", "metadata", "dry-run")


def run(arguments: Arguments) -> int:
    try:
        command = chosen_command(arguments, COMMANDS, SUMMARY)
        if isinstance(command, ClusterCommand):
            check_connection(arguments)
    except (ArgumentError, UsageError) as error:
        if str(error) == SUMMARY:
            raise
        print(f"Command line error: {error}. Type --help for help.", file=sys.stderr)
        return 1
    if isinstance(command, ClusterCommand):
        return run_on_cluster(arguments, partial(command.run, arguments))
    try:
        command.run(arguments)
    except ArgumentError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _describe(arguments: Arguments, admin: ClusterAdmin) -> None:
    for feature in features.describe_features(admin, arguments.integer("node-id")):
        levels = [feature.min_level, feature.max_level, feature.finalized_level]
        names = [level_name(feature.name, level) for level in levels]
        epoch = "-" if feature.epoch is None else str(feature.epoch)
        print(
            f"Feature: {feature.name:<41} SupportedMinVersion: {names[0]:<16} SupportedMaxVersion: {names[1]:<16} "
            f"FinalizedVersionLevel: {names[2]:<16} Epoch: {epoch}"
        )


def _upgrade(arguments: Arguments, admin: ClusterAdmin) -> None:
    _change(arguments, admin, "upgrade", features.UPGRADE)


def _downgrade(arguments: Arguments, admin: ClusterAdmin) -> None:
    _change(arguments, admin, "downgrade", _kind_of_downgrade(arguments))


def _kind_of_downgrade(arguments: Arguments) -> int:
    return features.UNSAFE_DOWNGRADE if arguments.has("unsafe") else features.SAFE_DOWNGRADE


def _change(arguments: Arguments, admin: ClusterAdmin, verb: str, kind: int) -> None:
    release, named = arguments.text("release-version"), arguments.texts("feature")
    if release is None:
        levels = _named_levels(arguments, named)
        if not levels:
            raise ArgumentError(f"You must specify at least one feature to {verb}")
    elif named or arguments.has("metadata"):
        raise ArgumentError("Can not specify `release-version` with other feature flags.")
    else:
        levels = releases.default_levels(known_level(release))
        if verb == "upgrade":
            # a feature that the release leaves off may have been enabled by hand, and level 0 would not be an upgrade
            levels = {name: level for name, level in levels.items() if level > 0}
    _update(arguments, admin, levels, kind, f"{verb}d" if verb.endswith("e") else f"{verb}ed", verb)


def _named_levels(arguments: Arguments, named: Sequence[str]) -> dict[str, int]:
    """The levels that `--metadata` and `--feature` name. Raises ArgumentError, also for a repeated feature."""
    levels: dict[str, int] = {}
    release = arguments.text("metadata")
    if release is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA_VERSION] = known_level(release)
    for name, level in map(feature_and_level, named):
        if name in levels:
            raise ArgumentError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _disable(arguments: Arguments, admin: ClusterAdmin) -> None:
    named = arguments.texts("feature")
    if not named:
        raise ArgumentError("You must specify at least one feature to disable")
    _update(arguments, admin, dict.fromkeys(named, 0), _kind_of_downgrade(arguments), "disabled", "disable")


def _update(
    arguments: Arguments, admin: ClusterAdmin, levels: Mapping[str, int], kind: int, done: str, verb: str
) -> None:
    """Prints a line for each feature. Raises ArgumentError with the number of rejected features."""
    is_dry_run = arguments.has("dry-run")
    results = features.update_features(admin, levels, kind, validate_only=is_dry_run)
    for name in sorted(results):
        error = results[name]
        level = "" if verb == "disable" else f" to {levels[name]}"
        if error is not None:
            print(f"{'Can' if is_dry_run else 'Could'} not {verb} {name}{level}. {error}")
        elif is_dry_run:
            print(f"{name} can be {done}{level}.")
        else:
            print(f"{name} was {done}{level}.")
    failed = sum(error is not None for error in results.values())
    if failed:
        raise ArgumentError(f"{failed} out of {len(results)} operation(s) failed.")


def _version_mapping(arguments: Arguments) -> None:
    print_mapping(arguments.text("release-version"))


def _dependencies(arguments: Arguments) -> None:
    for text in arguments.texts("feature"):
        name, level = feature_and_level(text)
        print_dependencies(name, level, f"No feature:{name} with feature level {level}")


COMMANDS: dict[str, ClusterCommand | OfflineCommand] = {
    "describe": ClusterCommand(optional=("node-id",), run=_describe),
    "upgrade": ClusterCommand(optional=_CHANGE, run=_upgrade),
    "downgrade": ClusterCommand(optional=(*_CHANGE, "unsafe"), run=_downgrade),
    "disable": ClusterCommand(optional=("feature", "unsafe", "dry-run"), run=_disable),
    "version-mapping": OfflineCommand(optional=("release-version",), run=_version_mapping),
    "feature-dependencies": OfflineCommand(required=("feature",), run=_dependencies),
}
