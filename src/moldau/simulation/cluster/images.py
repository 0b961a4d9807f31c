"""What nodes make of one metadata log: in the end they all have the same image.

Equal logs are not enough: a node that took a snapshot in the place of its log has folded other records than the rest,
and a broker has applied what its quorum published.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.metadata.image import MetadataImage
from moldau.simulation.violation import ViolationError

COMPARED = (
    "end_offset",
    "leader_epoch",
    "topics_by_id",
    "topics_by_name",
    "brokers",
    "controllers",
    "configs",
    "client_quotas",
    "features",
    "acls",
    "logins",
    "next_producer_id",
    "transaction",
)


def check_equal_images(images: Mapping[str, MetadataImage]) -> None:
    """`images`: by node, each at the same end of the metadata log. Raises ViolationError where two differ."""
    first_name, first = next(iter(images.items()))
    for name, image in images.items():
        for part in COMPARED:
            one, other = getattr(first, part), getattr(image, part)
            if one != other:
                raise ViolationError(
                    "every node has the same image", f"{part}: {first_name} has {one}, {name} has {other}"
                )
