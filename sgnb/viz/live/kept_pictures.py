"""Static pictures of chosen views, next to the default picture of a cell (`--keep`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...errors import OptionError, nearest
from ...events import Record, replay
from ..static.bundle import FINAL_LIMIT, static_bundle
from ..static.kept_views import KEPT_VIEWS, view_of

NOTHING = {"text/plain": ""}


class ViewPicture:
    """Static picture of a view, without a kernel. Displays as a picture; `str()` is a text.

    Attributes:
        view: Name of the view.
        svg: The picture.
        text: The view as text.
    """

    def __init__(self, view: str, bundle: dict[str, str]) -> None:
        self.view, self.svg, self.text = view, bundle["image/svg+xml"], bundle["text/plain"]

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}


def picture_of(view: str, records: Sequence[Record], run: str, uid: str = "") -> ViewPicture | None:
    """Return the static picture of a view, or None if the run has no data for the view.

    Args:
        view: One of `KEPT_VIEWS`.
        records: Records of the run.
        run: Id of the run.
        uid: Id of a live view that hides the picture.

    Raises:
        OptionError: No view has the name.
    """
    if view not in KEPT_VIEWS:
        raise OptionError(f"no view is called {view!r}", nearest(view, KEPT_VIEWS))

    state = view_of(view, records, run)
    return None if state is None else ViewPicture(view, static_bundle([state], uid, FINAL_LIMIT))


class KeptPictures:
    """Pictures of a running cell: empty outputs at the begin, drawn at the end.

    Args:
        views: Names of views.
        uid: Id of the live view that hides the pictures.
    """

    def __init__(self, views: Sequence[str], uid: str) -> None:
        self._views, self._uid = views, uid
        self._outputs: dict[str, Any] = {}

    def open(self) -> None:
        """Reserve the place of each picture in the running cell."""
        from IPython.display import display

        for view in self._views:
            self._outputs[view] = display(NOTHING, raw=True, display_id=f"{self._uid}-{view}")

    def close(self, lines: Iterable[str], run: str) -> None:
        """Draw the pictures, or print the views as text without a notebook.

        Args:
            lines: Records of the run as JSON.
            run: Id of the run.
        """
        views, self._views = self._views, ()
        records = list(replay(lines)) if views else []

        for view in views:
            picture = picture_of(view, records, run, self._uid)
            text = f"--keep {view}: this run has no data for the view"
            bundle = {"text/plain": text} if picture is None else picture._repr_mimebundle_()
            if view in self._outputs:
                self._outputs[view].update(bundle, raw=True)
            else:
                print(bundle["text/plain"])
