"""`moldau completion bash|zsh|fish`: prints what a shell needs to complete our commands, flags and choices.

The scripts ask `moldau` itself (`moldau completion words -- WORD ...`), so they are never older than the commands.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from moldau.cli.arguments import Subparsers
from moldau.cli.kafka.tools import TOOLS, load

SCRIPTS = {
    "bash": """_moldau() {
    local IFS=$'\\n'
    COMPREPLY=($(moldau completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _moldau moldau
""",
    "zsh": """#compdef moldau
_moldau() {
    local -a found
    found=("${(@f)$(moldau completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
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


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print the completion of a shell",
        description='Prints the completion of a shell. bash: put `eval "$(moldau completion bash)"` into ~/.bashrc; '
        "zsh: the same with zsh into ~/.zshrc; fish: "
        "`moldau completion fish > ~/.config/fish/completions/moldau.fish`.",
        examples=('eval "$(moldau completion bash)"',),
    )
    parser.add_argument("shell", choices=[*SCRIPTS, "words"])
    parser.add_argument("word", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=print_completion)


def print_completion(arguments: argparse.Namespace) -> int:
    if arguments.shell != "words":
        print(SCRIPTS[arguments.shell], end="")
        return 0
    for word in candidates(arguments.command_tree, arguments.word):
        print(word)
    return 0


def candidates(command_tree: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What may stand in the place of the last word after `moldau`; nothing where a file or a name is asked for."""
    *before, begun = words or [""]
    if before and before[0] in TOOLS:
        options = [f"--{option.name}" for option in load(before[0]).OPTIONS] + ["--help", "--version"]
        found = options if begun.startswith("-") else []
    else:
        found = _of_parser(command_tree, before, begun)
        if not before:
            found += list(TOOLS)
    return sorted(word for word in found if re.match(re.escape(begun), word))


def _of_parser(parser: argparse.ArgumentParser, before: Sequence[str], begun: str) -> list[str]:
    expects: argparse.Action | None = None
    for word in before:
        inner = _commands(parser).get(word)
        if inner is not None and expects is None:
            parser = inner
        expects = None if expects is not None else _taking_a_value(parser, word)
    if expects is not None:
        return [str(choice) for choice in expects.choices or ()]
    if begun.startswith("-"):
        return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    commands = list(_commands(parser))
    if commands:
        return commands
    for action in parser._actions:
        if not action.option_strings and action.choices is not None:
            return [str(choice) for choice in action.choices]
    return []


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _taking_a_value(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    """The flag that this word is, if a value must follow it."""
    for action in parser._actions:
        if word in action.option_strings and action.nargs != 0:
            return action
    return None
