"""Metadata images of nodes: in the end all nodes have the same image of one metadata log.

Equal logs are not enough. A node that replaced its log by a snapshot has applied other records than the rest, and a
broker has applied the records that its quorum published.
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
    """`images`: the image of each node, all at the same end of the metadata log. Raises ViolationError if two
    differ."""
    first_name, first = next(iter(images.items()))
    for name, image in images.items():
        for part in COMPARED:
            one, other = getattr(first, part), getattr(image, part)
            if one != other:
                raise ViolationError(
                    "every node has the same image", f"{part}: {first_name} has {one}, {name} has {other}"
                )
