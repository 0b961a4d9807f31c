"""`moldau completion bash|zsh|fish`: shell completion of commands, flags, topics and groups.

The scripts ask `moldau` itself (`moldau completion words -- WORD ...`), so they never get out of date. Topics and
groups come from the broker that the command line names. They are not cached: a cache would offer deleted topics.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from moldau.cli.access import CLIENT_ID, access_of
from moldau.cli.arguments import STANDARD_INPUT, Subparsers
from moldau.cli.kafka.tools import TOOLS, load
from moldau.cli.output import CommandError
from moldau.cli.parser import commands_of

SCRIPTS = {
    "bash": """_moldau() {
    local IFS=$'\\n' word words=() is_glued=
    # bash takes HOST:PORT and --flag=value apart; put them together again
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ -n $is_glued || $word == [:=]* ]] && (( ${#words[@]} )); then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        is_glued=
        if [[ $word == *[:=] ]]; then is_glued=1; fi
    done
    COMPREPLY=($(moldau completion words -- "${words[@]}" 2>/dev/null))
    # of --flag=value bash replaces the value alone
    if [[ $COMP_WORDBREAKS == *=* && $word != "${words[${#words[@]}-1]}" ]]; then
        COMPREPLY=("${COMPREPLY[@]#--*=}")
    fi
}
complete -o default -F _moldau moldau
""",
    "zsh": """#compdef moldau
_moldau() {
    local -a found
    found=("${(@f)$(moldau completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
# a zsh without a ~/.zshrc of its own has no completion yet
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _moldau moldau
""",
    "fish": """function __moldau_words
    set -l given (commandline -opc) (commandline -ct)
    set -l found (moldau completion words -- $given[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c moldau -f -a '(__moldau_words)'
""",
}


_WORDS = "words"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print the completion of a shell",
        description='Prints the completion of a shell. bash: put `eval "$(moldau completion bash)"` into ~/.bashrc; '
        "zsh: the same with zsh into ~/.zshrc; fish: "
        "`moldau completion fish > ~/.config/fish/completions/moldau.fish`.",
        examples=('eval "$(moldau completion bash)"',),
    )
    parser.add_argument("shell", choices=_Shells(SCRIPTS))
    parser.add_argument("word", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=print_completion)


class _Shells(tuple[str, ...]):
    """The words after `completion`. The scripts ask for `words`, which is accepted but not offered."""

    __slots__ = ()

    def __contains__(self, word: object) -> bool:
        return word == _WORDS or super().__contains__(word)


def print_completion(arguments: argparse.Namespace) -> int:
    if arguments.shell != _WORDS:
        print(SCRIPTS[arguments.shell], end="")
        return 0
    for word in candidates(arguments.command_tree, arguments.word, names_at):
        print(word)
    return 0


Asker = Callable[[argparse.Namespace, str], list[str]]
"""(arguments that `access_of` reads, "topic" or "group") -> the names."""

ASK_TIMEOUT_MS = 500
_NAMED = ("topic", "group")
_ACCESS_FLAGS = {
    **dict.fromkeys(("-b", "--bootstrap-server", "--bootstrap"), "bootstrap_server"),
    "--profile": "profile",
    "--command-config": "command_config",
}


def candidates(command_tree: argparse.ArgumentParser, words: Sequence[str], ask: Asker) -> list[str]:
    """The candidates for the last word after `moldau`; empty if it is a file name."""
    *before, begun = words or [""]
    flag, equals, value = begun.partition("=")
    glued = flag + equals if equals and flag.startswith("--") else ""
    if glued:
        before, begun = [*before, flag], value
    if before and before[0] in TOOLS:
        wanted = _of_tool(before, begun)
    else:
        wanted = _of_parser(command_tree, before, begun, is_value=bool(glued))
        if isinstance(wanted, list) and not before:
            wanted += list(TOOLS)
    found = ask(_reached(before), wanted) if isinstance(wanted, str) else wanted
    return sorted({glued + word for word in found if word.startswith(begun)})


def _reached(before: Sequence[str]) -> argparse.Namespace:
    """The access arguments that the line names."""
    found = argparse.Namespace(bootstrap_server=None, profile=None, command_config=None)
    for word, after in pairwise([*before, ""]):
        flag, equals, value = word.partition("=")
        if flag in _ACCESS_FLAGS:
            setattr(found, _ACCESS_FLAGS[flag], value if equals else after)
    return found


def names_at(arguments: argparse.Namespace, kind: str) -> list[str]:
    """The topics or groups of a cluster; empty if no broker answers within half a second."""
    from moldau.errors import MoldauError
    from moldau.transport.access import open_connection
    from moldau.wire.protocol.messages.groups_classic import ListGroupsRequest
    from moldau.wire.protocol.messages.metadata import MetadataRequest

    if arguments.command_config == STANDARD_INPUT:
        return []
    try:
        access = msgspec.structs.replace(
            access_of(arguments).named(CLIENT_ID), connect_timeout_ms=ASK_TIMEOUT_MS, request_timeout_ms=ASK_TIMEOUT_MS
        )
        with open_connection(access, *access.addresses()[0]) as connection:
            if kind == "group":
                groups = connection.request(ListGroupsRequest())
                return [group.group_id for group in groups.groups]
            metadata = connection.request(MetadataRequest(topics=None))
            return [topic.name for topic in metadata.topics if topic.name]
    except (MoldauError, CommandError):
        return []


def _of_tool(before: Sequence[str], begun: str) -> list[str] | str:
    options = {f"--{option.name}": option for option in load(before[0]).OPTIONS}
    last = options.get(before[-1])
    if last is not None and last.argument:
        return last.name if last.name in _NAMED else []
    return [*options, "--help", "--version"] if begun.startswith("-") else []


def _of_parser(
    parser: argparse.ArgumentParser, before: Sequence[str], begun: str, *, is_value: bool
) -> list[str] | str:
    """The words; or "topic" or "group" if such a name is due. `is_value`: the word is the value of the last flag."""
    expects: argparse.Action | None = None
    others: list[str] = []
    for word in before:
        inner = commands_of(parser).get(word)
        if expects is not None:
            expects = None
        elif inner is not None:
            parser = inner
        elif word.startswith("-"):
            expects = _taking_a_value(parser, word)
        else:
            others.append(word)
    if expects is not None:
        return _of_action(expects, others)
    if is_value:
        return []
    if begun.startswith("-"):
        return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    commands = list(commands_of(parser))
    if commands:
        return commands
    place = _place(parser, len(others))
    return [] if place is None else _of_action(place, others)


def _place(parser: argparse.ArgumentParser, given: int) -> argparse.Action | None:
    """The positional argument after `given` others."""
    for action in parser._actions:
        if action.option_strings:
            continue
        if given == 0 or action.nargs in ("*", "+"):
            return action
        given -= 1
    return None


def _of_action(action: argparse.Action, others: Sequence[str]) -> list[str] | str:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest in _NAMED:
        return action.dest
    # `configs describe topic NAME`
    if action.dest == "name" and others and others[0] in _NAMED:
        return others[0]
    return []


def _taking_a_value(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """The flag `word`, if it requires a value."""
    for action in parser._actions:
        if word in action.option_strings and action.nargs != 0:
            return action
    return None
