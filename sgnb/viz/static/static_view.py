"""Interface of views without a live state: a picture and a text of finished records."""

from __future__ import annotations

from typing import Protocol

from .media_svg import Thumbnails


class StaticView(Protocol):
    """A view that is drawn only as a picture."""

    style: str  # further style sheet of the document

    def draw(self, rows: int, thumbnails: Thumbnails) -> tuple[str, float]:
        """Return SVG elements and the height in pixels.

        Args:
            rows: Limit on the size of the drawing.
            thumbnails: Pictures of the document.
        """
        ...

    def text(self) -> str:
        """Return the view as text."""
        ...
