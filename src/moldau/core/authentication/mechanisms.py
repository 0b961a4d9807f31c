"""The SASL mechanisms of a listener, and the exchange of each."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.authentication.exchange import Exchange
from moldau.core.authentication.plain import PlainExchange, PlainUsers
from moldau.core.authentication.scram import ScramExchange, ScramUsers
from moldau.core.authentication.settings import SaslSettings
from moldau.core.authentication.token_logins import TokenLogins
from moldau.core.authentication.users import ScramDirectory
from moldau.ports import Random
from moldau.wire.protocol.sasl_tokens import OAUTHBEARER, PLAIN, SCRAM_NUMBERS, scram_nonce

NONCE_BYTES = 24


class ListenerMechanisms:
    """See `authentication.Mechanisms`. One for each SASL listener; its settings may be replaced."""

    def __init__(
        self,
        settings: SaslSettings,
        directory: ScramDirectory,
        random: Random,
        node_secret: bytes,
        tokens: TokenLogins | None = None,
        new_bearer_exchange: Callable[[SaslSettings], Exchange] | None = None,
    ) -> None:
        """`node_secret`: random bytes, the same for all listeners of a node. `tokens`: None where the node has no
        delegation tokens. `new_bearer_exchange`: that of OAUTHBEARER by the settings in force, where a listener may
        offer it."""
        self._tokens = tokens
        self._new_bearer_exchange = new_bearer_exchange
        self._random = random
        self._directory = directory
        self._node_secret = node_secret
        self._scram = {mechanism: ScramUsers(mechanism, directory) for mechanism in SCRAM_NUMBERS}
        self.settings_changed(settings)

    def settings_changed(self, settings: SaslSettings) -> None:
        """New exchanges use `settings`."""
        self._settings = settings
        self._plain = PlainUsers(settings.passwords, self._node_secret)

    @property
    def names(self) -> tuple[str, ...]:
        """The enabled mechanisms, in the order of the setting."""
        return self._settings.mechanisms

    def new_exchange(self, mechanism: str) -> Exchange:
        """See Mechanisms."""
        if mechanism == PLAIN:
            return PlainExchange(self._plain)
        if mechanism == OAUTHBEARER and self._new_bearer_exchange is not None:
            return self._new_bearer_exchange(self._settings)
        nonce = scram_nonce(self._random.random_bytes(NONCE_BYTES))
        return ScramExchange(self._scram[mechanism], nonce, self._tokens)

    def max_session_ms(self, mechanism: str) -> int:
        """See Mechanisms."""
        return self._settings.max_session_ms.get(mechanism, 0)

    def still_has(self, principal: str, mechanism: str, token_id: str = "") -> bool:
        """See Mechanisms."""
        if token_id:
            return mechanism in self.names and self._tokens is not None and self._tokens.still_holds(token_id)
        username = principal.partition(":")[2]
        if mechanism == OAUTHBEARER:
            return mechanism in self.names  # until the token expires: this node does not know the issuer's users
        if mechanism == PLAIN:
            return mechanism in self.names and username in self._plain
        return mechanism in self.names and self._directory.find(username, SCRAM_NUMBERS[mechanism]) is not None
