"""Templates in the common frame, and the static files of the frame."""

from __future__ import annotations

from pathlib import Path

import jinja2

from moldau import __version__
from moldau.products.service.look.words import show_count, show_duration, show_rate, show_size, visible
from moldau.products.service.people import Role
from moldau.products.service.routes import ServedFiles

_HERE = Path(__file__).parent
STATIC = ServedFiles("/static", _HERE / "static", needs=Role.NOBODY)


def templates_in(directory: Path) -> jinja2.Environment:
    """The templates of a product, which extend `frame.html`; each escapes every foreign text. `charts`: macros."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([directory, _HERE / "templates"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(size=show_size, count=show_count, rate=show_rate, duration=show_duration, visible=visible)
    templates.globals["version"] = __version__
    templates.globals["charts"] = templates.get_template("charts.html").module
    return templates


def render_main(templates: jinja2.Environment, name: str, values: dict[str, object]) -> str:
    """Only the block `main`, with which a page replaces its old one."""
    template = templates.get_template(name)
    return "".join(template.blocks["main"](template.new_context(values)))
