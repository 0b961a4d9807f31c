"""At the end all nodes of a simulated cluster have the same metadata image."""

from __future__ import annotations

import pytest

from moldau.core.metadata.image import ConfigResource, MetadataImage, ResourceType
from moldau.simulation.cluster.changers import LateSetting
from moldau.simulation.cluster.images import COMPARED, check_equal_images
from moldau.simulation.violation import ViolationError

TOPIC = ConfigResource(ResourceType.TOPIC, "events")


def images():
    first = MetadataImage("cluster")
    first.configs = {TOPIC: {"max.message.bytes": "900000"}}
    first.next_producer_id = 1_000
    return first, first.copy()


def test_equal_images_break_no_rule():
    first, second = images()
    check_equal_images({"node-1": first, "node-2": second})


@pytest.mark.parametrize(
    ("part", "other"), [("configs", {}), ("next_producer_id", 0), ("client_quotas", {(): {"a": 1.0}})]
)
def test_a_part_that_differs_is_named(part, other):
    first, second = images()
    setattr(second, part, other)
    with pytest.raises(ViolationError, match=f"{part}: node-1 has"):
        check_equal_images({"node-1": first, "node-2": second})


def test_every_part_of_an_image_is_compared():
    assert set(vars(MetadataImage())) - set(COMPARED) == {"cluster_id"}


def test_a_change_without_an_answer_may_come_after_a_later_one():
    value = LateSetting("a setting", is_flushed=True)
    unanswered, _ = value.begin(1)
    unanswered.is_over = True
    value.acknowledged(*value.begin(2))
    value.read(1)
    with pytest.raises(ViolationError, match="read 3"):
        value.read(3)
