"""The parser of all commands: flags anywhere between words, hints for misspelt words, examples in help.

argparse wants all words of a positional argument in one place (`produce TOPIC --key k VALUE` fails). Each command
without subcommands therefore puts its flags before its words, and then lets argparse read them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from moldau.types import hint

USAGE_EXIT_CODE = 2
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_REQUIRED = "the following arguments are required: "
_HELP = ("-h", "--help")
_UNKNOWN_FLAG = re.compile(r"--?[^\s=]+")


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The subcommands of a command. The sentence in the list also describes the command itself."""

    def add_parser(self, name: str, **settings: Any) -> Any:
        text = settings.get("help") or ""
        settings.setdefault("description", text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))
        return super().add_parser(name, **settings)


class CommandParser(argparse.ArgumentParser):
    """`examples`: command lines at the end of the help, each with an optional comment after two blanks and a #.
    `default_command`: the subcommand that runs if none is named; None shows the help."""

    def __init__(
        self, *words: Any, examples: Sequence[str] = (), default_command: str | None = None, **settings: Any
    ) -> None:
        super().__init__(*words, **settings)
        self.examples = tuple(examples)
        self._default_command = default_command
        self.register("action", "parsers", _Commands)
        self._positionals.title = "words"
        self._optionals.title = "flags"

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        """As argparse's; shows a positional argument in capitals."""
        if names and not names[0].startswith("-") and "choices" not in settings:
            settings.setdefault("metavar", names[0].upper())
        return super().add_argument(*names, **settings)

    # --- parsing ---

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse's; a command without subcommands leaves no word unread."""
        words = list(sys.argv[1:] if args is None else args)
        if commands_of(self):
            if self._default_command is not None and (not words or (is_flag(words[0]) and words[0] not in _HELP)):
                words = [self._default_command, *words]
            if not words:
                self.print_help(sys.stderr)
                self.exit(USAGE_EXIT_CODE)
            return super().parse_known_args(words, namespace)
        found, unread = super().parse_known_args(self._flags_first(words), namespace)
        if unread:
            self._refuse(unread)
        return found, []

    def _flags_first(self, words: list[str]) -> list[str]:
        """The same words with the flags and their values before the other words."""
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            return words
        flags: list[str] = []
        others: list[str] = []
        position = 0
        while position < len(words):
            word = words[position]
            position += 1
            if word == "--":
                others += words[position:]
                break
            if not is_flag(word):
                others.append(word)
                continue
            action = self._flag(word)
            has_value = action is not None and action.nargs != 0 and "=" not in word and not _is_short_with_value(word)
            if has_value and position < len(words) and self._flag(words[position]) is None:
                value = words[position]
                position += 1
                # in one word with its flag, a value may begin with a dash
                if word.startswith("--"):
                    flags.append(f"{word}={value}")
                else:
                    flags += [word + value] if value.startswith("-") else [word, value]
            else:
                flags.append(word)
        return [*flags, "--", *others] if others else flags

    def _flag(self, word: str) -> argparse.Action | None:
        """The flag that this word is, even if it is shortened; None for a value and for an unknown flag."""
        if not is_flag(word):
            return None
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        known = self._option_string_actions
        if name in known:
            return known[name]
        begun = {
            id(action): action for flag, action in known.items() if name.startswith("--") and flag.startswith(name)
        }
        return next(iter(begun.values())) if len(begun) == 1 else None

    # --- errors ---

    def _refuse(self, unread: Sequence[str]) -> NoReturn:
        word = next((word for word in unread if is_flag(word)), unread[0])
        found = _UNKNOWN_FLAG.match(word)
        if found is None or not is_flag(word):
            self.error(f"there is no place for {word!r}")
        name = found[0]
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        self.error(f"unknown flag {name}{hint(name, flags)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            noun = self.prog.removeprefix("moldau").strip()
            what = f"{noun} has no command {value!r}" if noun else f"there is no command {value!r}"
            self.error(f"{what}{hint(str(value), [*choices, *self.words_beside()])}")
        name = "/".join(action.option_strings) or str(action.metavar or action.dest).upper()
        self.error(f"{name} is one of {', '.join(choices)}, not {value!r}{hint(str(value), choices)}")

    def words_beside(self) -> Iterable[str]:
        """Commands that another parser reads."""
        return ()

    def error(self, message: str) -> NoReturn:
        """Prints one sentence, then the usage of this command; exit code 2."""
        sentence = re.sub(r"^argument ([^:]+): expected one argument$", r"\1 needs a value", message)
        if sentence.startswith(_REQUIRED):
            sentence = f"missing: {', '.join(self._required(sentence.removeprefix(_REQUIRED)))}"
        sentence = re.sub(r"^one of the arguments (.*) is required$", r"one of these flags is needed: \1", sentence)
        sentence = re.sub(r"^argument ", "", sentence)
        self.exit(
            USAGE_EXIT_CODE,
            f"moldau: {sentence}\n\n{self.format_usage()}{self.prog} --help explains the flags.\n",
        )

    def _required(self, names: str) -> Iterator[str]:
        """The words as the usage shows them, without hidden ones."""
        hidden = [action.metavar or action.dest.upper() for action in self._actions if action.help == argparse.SUPPRESS]
        for name in names.split(", "):
            shown = name if is_flag(name) else name.upper()
            if shown not in hidden:
                yield shown

    # --- help ---

    def format_help(self) -> str:
        return f"{super().format_help()}\nexamples:\n" + "".join(f"  {line}\n" for line in self._examples())

    def _examples(self) -> list[str]:
        """The examples of this command; a noun shows the first example of each subcommand."""
        if self.examples:
            return list(self.examples)
        below = [inner for inner in commands_of(self).values() if isinstance(inner, CommandParser)]
        return [line for inner in below for line in inner._examples()[:1]]


def is_flag(word: str) -> bool:
    """Whether a word has the form of a flag: a dash alone is standard input, and a number may be negative."""
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE_NUMBER.fullmatch(word)


def _is_short_with_value(word: str) -> bool:
    return not word.startswith("--") and len(word) > 2


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subcommands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
