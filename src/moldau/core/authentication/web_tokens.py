"""Checks the JSON Web Token of a client (OAUTHBEARER): the claims of a valid token, by Apache Kafka's rules.

Moldau also rejects a user whose name is longer than MAX_SUBJECT or has an unprintable character.
"""

from __future__ import annotations

from typing import Final

from moldau.core.authentication.bearer import Bearer
from moldau.core.authentication.bearer_settings import TokenRules
from moldau.wire.web_tokens.judge import check_signed_token
from moldau.wire.web_tokens.key_set import KeySet
from moldau.wire.web_tokens.rules import TokenRefusedError

MAX_SUBJECT: Final = 1_024


def check_web_token(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> Bearer:
    """See `check_signed_token`."""
    valid = check_signed_token(token, keys, rules, now_ms)
    _check_scope(valid.claims.get(rules.scope_claim))
    subject = valid.claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRefusedError(f"its {rules.subject_claim} is no text, or blank")
    if len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise TokenRefusedError(f"its {rules.subject_claim} is longer than {MAX_SUBJECT}, or cannot be printed")
    return Bearer(subject, valid.expires_at_ms)


def _check_scope(scope: object) -> None:
    """Rejects a malformed scope as Apache Kafka does. Scopes have no other effect here."""
    named = scope if isinstance(scope, list) else [scope] if isinstance(scope, str) else []
    if any(not isinstance(each, str) or not each.strip() for each in named) or len(set(map(str, named))) < len(named):
        raise TokenRefusedError("its scope is empty, no text, or names one twice")
