"""What `kafka-configs` sends for a password is what a login with that password is checked against."""

from __future__ import annotations

import base64
import hashlib
import hmac

from moldau.client.admin.scram import Credential, salted_password


def test_a_password_is_salted_as_in_the_example_of_rfc_7677() -> None:
    salted = salted_password(Credential("SCRAM-SHA-256", 4096, "pencil"), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert base64.b64encode(stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
