"""docs/pictures/shop.svg is the output of `moldau pipeline graph --svg` for the guide's pipeline file.

`python -m tests.products.test_pipeline_picture` draws it again.
"""

from __future__ import annotations

from pathlib import Path

from moldau.products.pipelines.looking.picture import STYLE, boxes_and_edges
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.products.service.look.plan import draw_plan
from tests.cluster.guides import ROOT, blocks

PICTURE = ROOT / "docs" / "pictures" / "shop.svg"


def drawn() -> str:
    (text,) = [
        block.text
        for block in blocks()
        if block.page.endswith("use/pipelines.md") and block.text.startswith("name: shop")
    ]
    spec = parse_spec(text, file_name="shop.yaml", directory=Path("/shop"), parameters={"LEAST": "2"})
    return draw_plan(*boxes_and_edges(spec), style=STYLE)


def test_the_picture_of_the_guide_is_up_to_date() -> None:
    assert PICTURE.read_text("utf-8") == drawn()


if __name__ == "__main__":
    PICTURE.write_text(drawn(), "utf-8")
