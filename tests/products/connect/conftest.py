"""Fixtures of tests of connectors."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.gate import CONNECTORS


@pytest.fixture
def own_module() -> Iterator[None]:
    """The folder of a user's own connectors is on the path."""
    sys.path.insert(0, str(CONNECTORS))
    yield
    sys.path.remove(str(CONNECTORS))
