"""`ssl.principal.mapping.rules`: maps the name in a client's certificate to a principal (KIP-371).

    RULE:pattern/replacement/[LU], ..., DEFAULT

The first rule whose pattern matches the whole name gives the principal. `$1` is the first group; L and U make it lower
or upper case. DEFAULT is the name itself. Patterns are Python's, which differ little from Java's.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from moldau.core.config.setting import invalid_config

SETTING = "ssl.principal.mapping.rules"
_RULE = r"DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?"
_LIST = re.compile(rf"\s*({_RULE})\s*(?:,|$)")
_PARTS = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)")


class PrincipalRule(msgspec.Struct, frozen=True):
    """One rule. `pattern` None: DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""


class PrincipalRules(msgspec.Struct, frozen=True):
    """The rules of one listener, in order."""

    rules: tuple[PrincipalRule, ...]

    def principal_of(self, name: str) -> str | None:
        """The name of the principal without "User:". None: no rule matches, and Kafka closes the connection."""
        for rule in self.rules:
            if rule.pattern is None:
                return name
            if rule.pattern.fullmatch(name) is not None:
                # as in Kafka, every match, including the empty one that `.*` has at the end of the name
                text = rule.pattern.sub(partial(_replaced, rule.replacement), name)
                return text.lower() if rule.case == "L" else text.upper() if rule.case == "U" else text
        return None


def parse_principal_rules(text: str) -> PrincipalRules:
    """Raises error 40 for a malformed list of rules."""
    rules: list[PrincipalRule] = []
    position, stripped = 0, text.strip()
    while position < len(stripped):
        item = _LIST.match(stripped, position)
        if item is None:
            raise invalid_config(f"Invalid rule in {SETTING}: `{stripped[position:]}`, write RULE:pattern/name/[LU]")
        rules.append(_rule(item.group(1)))
        position = item.end()
    if not rules:
        raise invalid_config(f"{SETTING} is empty: no certificate would have a principal")
    return PrincipalRules(tuple(rules))


def _rule(text: str) -> PrincipalRule:
    parts = _PARTS.fullmatch(text)
    if parts is None:
        return PrincipalRule()
    pattern, replacement, case = parts.groups()
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise invalid_config(f"Invalid rule in {SETTING}: `{text}`, {error}") from None
    return PrincipalRule(compiled, replacement, case)


def _replaced(replacement: str, found: re.Match[str]) -> str:
    """As Java's `Matcher.replaceAll`. As in Kafka, `$7` without a seventh group stands for itself."""

    def put(reference: re.Match[str]) -> str:
        literal, number = reference.groups()
        if literal is not None:
            return str(literal)
        if int(number) > found.re.groups:
            return str(reference.group())
        return found.group(int(number)) or ""

    return _REFERENCE.sub(put, replacement)
