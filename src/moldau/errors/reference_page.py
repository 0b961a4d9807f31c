"""docs/reference/errors.md, written from the classes: `python -m moldau.errors.reference_page`."""

from __future__ import annotations

import sys

from moldau import errors
from moldau.errors import ERROR_CLASSES, KafkaError, MoldauError

_HEAD = """# Errors

Written from the classes in `src/moldau/errors`; a test fails where this page is old. To write it again:

    python -m moldau.errors.reference_page > docs/reference/errors.md

Every error that Moldau raises in Python on purpose is a `moldau.errors.MoldauError`. Below it stands `KafkaError`,
with one class for each error code of Apache Kafka 4.4.0:

```python
import pytest
from moldau.errors import GroupIdNotFoundError, KafkaError
from moldau.testing import Cluster

with Cluster() as cluster, pytest.raises(GroupIdNotFoundError) as caught:
    cluster.lag("nobody")

assert isinstance(caught.value, KafkaError)
assert (caught.value.code, caught.value.name, caught.value.is_retriable) == (69, "GROUP_ID_NOT_FOUND", False)
```

| other class in `moldau.errors` | meaning |
|---|---|
"""

_CODES = """
The test kit has one more: `moldau.testing.NotReachedError`, a `TimeoutError`, is what `wait_for` raises.

In the table, *again* says whether a client may send the same request again (`is_retriable`).

| code | Kafka's name | class in `moldau.errors` | again | meaning |
|---:|---|---|---|---|
"""


def errors_page() -> str:
    """The whole page."""
    rows = (
        f"| {code} | `{made.name}` | `{made.__name__}` | {'yes' if made.is_retriable else ''} | {_meaning(made)} |"
        for code, made in sorted(ERROR_CLASSES.items())
    )
    roots = (
        f"| `{made.__name__}` | {_meaning(made)} |"
        for made in vars(errors).values()
        if isinstance(made, type) and issubclass(made, MoldauError) and not issubclass(made, KafkaError)
    )
    return _HEAD + "\n".join(roots) + "\n" + _CODES + "\n".join(rows) + "\n"


def _meaning(made: type) -> str:
    return " ".join((made.__doc__ or "").split())


if __name__ == "__main__":
    sys.stdout.write(errors_page())
