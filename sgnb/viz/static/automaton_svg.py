"""Automaton as a static SVG picture, equal to the page's drawing (`page/automaton*.js`).

Large automata are cut to the part at the start. Escapes all text. Computes no layout of columns and
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import dist

from ...events import AutomatonDrawn
from .plain_text import counted, in_line, label
from .svg import INSIDE, LETTER, MARGIN, STYLE, document, tag, text_at

WHOLE = 60
"""Maximum number of states for a complete drawing."""
START, ROWS = 40, 8
"""Number of states and rows drawn of a larger automaton."""
ARROWS = 260
"""Maximum number of arrows; an arrow takes about 180 bytes."""

PILL, ROW, TRACK, HEADER, LOOP = 18, 58, 14, 28, 22
"""Pixels: heights of a state, a row, a bus, a band's header, and loops above a row."""
GAP = 44
CROWD, CROWDED_GAP = 12, 120
"""Minimum number of direct edges after a column to omit labels, and the gap for edges without
labels."""
LABEL, FORCED_LABEL = 19, 23
"""Maximum characters of an edge label, and of a forced edge's label."""
HEADING, LEGEND = 40, 24

DRAWN = """
.e,.w{stroke:#8c959f;fill:none;stroke-dasharray:none}.w{stroke:#b8568f;stroke-width:5}.w.t{stroke-width:3}.w.c{stroke-width:1}
.a{fill:#57606a}.q{stroke:#57606a;fill:#f4f5f7}.i{stroke:#57606a;fill:none}
.o,.y{text-anchor:middle;font-size:11px}.y{font-size:10px;fill:#57606a}.p{fill:#fff}
"""

Point = tuple[float, float]
Lines = list[list[Point]]


@dataclass(slots=True)
class Arrow:
    """All edges between two states."""

    start: int
    target: int
    part: str
    track: int  # track of the bus, or -1
    texts: list[str] = field(default_factory=list)
    chosen: float = 0.0  # fraction of the text before the forced ending

    @property
    def text(self) -> str:
        return in_line(" | ".join(self.texts), FORCED_LABEL if self.chosen < 0.5 else LABEL)


@dataclass(slots=True)
class Band:
    """Adjacent columns; `y`, `top` and `tracks` in pixels."""

    first: int
    last: int
    row: int = 0  # first row
    rows: int = 0  # number of rows
    y: float = 0.0
    top: float = 0.0  # top of the first row
    tracks: dict[int, float] = field(default_factory=dict)


class AutomatonLayout:
    """Positions of the shown states and outgoing arrows, in bands from top to bottom."""

    def __init__(self, drawn: AutomatonDrawn, shown: frozenset[int]) -> None:
        self.drawn, self.shown = drawn, shown
        self.arrows = [arrow for arrow in arrows_of(drawn) if arrow.start in shown][:ARROWS]
        between = [
            arrow for arrow in self.arrows if arrow.track < 0 and arrow.start != arrow.target
        ]
        self._columns = Counter(drawn.columns[arrow.start] for arrow in between)
        self._lower_rows = Counter(map(self._lower_row, between))
        self.pill = 14 + LETTER * max(len(str(drawn.states[i])) for i in shown)
        self.x: dict[int, float] = {}  # x position by column
        self.bands = self._bands()
        self.height = self._place_rows()

    def _bands(self) -> list[Band]:
        gaps, columns = self._gaps(), self.drawn.columns
        loop_room = {
            columns[arrow.start]: (LETTER * len(arrow.text) - self.pill) / 2
            for arrow in self.arrows
            if arrow.start == arrow.target
        }
        bands: list[Band] = []
        end = 0.0

        for column in range(1 + max(columns[i] for i in self.shown)):
            end += self.pill + gaps.get(column, GAP)
            if not bands or end > INSIDE:
                bands.append(Band(column, column))
                end = max(24, loop_room.get(column, 0)) + self.pill + gaps.get(column, GAP)
            bands[-1].last = column
            self.x[column] = end - gaps.get(column, GAP) - self.pill / 2

        return bands

    def _gaps(self) -> dict[int, float]:
        """Return the widths of gaps after columns with wide labels."""
        gaps: dict[int, float] = {}
        for arrow in self.arrows:
            room, column = LETTER * len(arrow.text), self.drawn.columns[arrow.start]
            if arrow.start == arrow.target:
                for side in (column - 1, column):
                    gaps[side] = max(gaps.get(side, GAP), room / 2 + 12)
            elif arrow.track < 0:
                width = CROWDED_GAP if self.is_crowded(arrow) else room + 26
                gaps[column] = max(gaps.get(column, GAP), width)
        return gaps

    def _lower_row(self, arrow: Arrow) -> tuple[int, int]:
        """Return the column and lower row of an arrow: the position of the label."""
        rows = self.drawn.rows
        return self.drawn.columns[arrow.start], max(rows[arrow.start], rows[arrow.target])

    def is_crowded(self, arrow: Arrow) -> bool:
        """Return True if other arrows take the space of the label."""
        if arrow.track >= 0 or arrow.start == arrow.target:
            return False
        slants = self.drawn.rows[arrow.start] != self.drawn.rows[arrow.target]
        many = self._columns[self.drawn.columns[arrow.start]] > CROWD
        return many or (slants and self._lower_rows[self._lower_row(arrow)] > 1)

    def _place_rows(self) -> float:
        """Place rows and tracks; return the height of all bands."""
        loops = {arrow.start for arrow in self.arrows if arrow.start == arrow.target}
        y = 0.0
        for band in self.bands:
            members = {i for i in self.shown if self._in(band, self.drawn.columns[i])}
            rows = [self.drawn.rows[i] for i in members]
            band.row, band.y, band.top = min(rows), y, y + HEADER + LOOP * bool(loops & members)
            band.rows = 1 + max(rows) - band.row
            y = band.top + ROW * band.rows - 8
            here = {arrow.track for arrow in self.arrows if self._crosses(arrow, band)}
            band.tracks = {track: y + TRACK * (i + 0.5) for i, track in enumerate(sorted(here))}
            y += TRACK * len(here) + 8
        return y

    @staticmethod
    def _in(band: Band, column: int) -> bool:
        return band.first <= column <= band.last

    def _crosses(self, arrow: Arrow, band: Band) -> bool:
        """Return True if the arrow's bus passes below the band."""
        ends = self.drawn.columns[arrow.start], self.drawn.columns[arrow.target]
        return arrow.track >= 0 and min(ends) <= band.last and max(ends) >= band.first

    def band(self, state: int) -> int:
        column = self.drawn.columns[state]
        return next(i for i, band in enumerate(self.bands) if self._in(band, column))

    def at(self, state: int) -> Point:
        band = self.bands[self.band(state)]
        down = ROW * (self.drawn.rows[state] - band.row) + PILL / 2
        return self.x[self.drawn.columns[state]], band.top + down

    def lines(self, arrow: Arrow) -> Lines:
        """Return the lines from start to target, or to the border if the target is hidden."""
        x, y = self.at(arrow.start)
        if arrow.start == arrow.target:
            top = y - PILL / 2
            return [[(x - 7, top), (x - 13, top - 14), (x + 13, top - 14), (x + 7, top)]]

        right = x + self.pill / 2
        if arrow.track >= 0:
            return self._bus(arrow, (right, y))
        if arrow.target not in self.shown:
            return [[(right, y), (right + 22, y)]]

        x, to = self.at(arrow.target)
        end_x = x - self.pill / 2
        band = self.bands[self.band(arrow.start)]
        if self.band(arrow.target) != self.band(arrow.start):
            row = min(band.rows - 1, max(0, self.drawn.rows[arrow.target] - band.row))
            level = band.top + ROW * row + PILL / 2
            elbow = [] if level == y else [(right + 6, y), (right + 18, level)]
            return [[(right, y), *elbow, (INSIDE, level)], [(0, to), (end_x, to)]]

        # The long segment lies in the lower of two rows, to separate labels of edges with a common
        # state.
        elbow = []
        if y < to and not self.is_crowded(arrow):
            elbow = [(right + 6, y), (right + 18, to)]
        elif y > to and not self.is_crowded(arrow):
            elbow = [(end_x - 24, y), (end_x - 12, to)]

        return [[(right, y), *elbow, (end_x, to)]]

    def _aside(self, state: int) -> int:
        """Return the horizontal offset of a state's vertical lines, to keep lines of stacked states
        apart."""
        return 3 * ((self.drawn.rows[state] - self.bands[self.band(state)].row) % 4)

    def _bus(self, arrow: Arrow, begin: Point) -> Lines:
        columns, hidden = self.drawn.columns, arrow.target not in self.shown
        step = 1 if columns[arrow.target] > columns[arrow.start] else -1
        entry_x, exit_x = (0, INSIDE) if step > 0 else (INSIDE, 0)
        first = self.band(arrow.start)
        last = len(self.bands) - 1 if hidden else self.band(arrow.target)
        lines: Lines = []

        for i in range(first, last + step, step):
            y = self.bands[i].tracks[arrow.track]
            line: list[Point] = [(entry_x, y)]
            if i == first:
                (x, top), down = begin, begin[0] + 9 + self._aside(arrow.start)
                line = [begin, (x + 5, top), (down, top + 4), (down, y - 4), (down + 4 * step, y)]
            if i == last and not hidden:
                x, top = self.at(arrow.target)
                x -= self.pill / 2
                up = x - 12 - self._aside(arrow.target)
                line += [(up - 4 * step, y), (up, y - 4), (up, top + 4), (up + 4, top), (x, top)]
            else:
                line.append((exit_x, y))
            lines.append(line)

        return lines


def arrows_of(drawn: AutomatonDrawn) -> list[Arrow]:
    arrows: dict[tuple[int, int], Arrow] = {}
    edges = (drawn.starts, drawn.targets, drawn.ways, drawn.parts, drawn.tracks)
    for start, target, way, part, track in zip(*edges, strict=True):
        if (start, target) not in arrows:
            arrows[start, target] = Arrow(start, target, drawn.part_names[part], track)
        arrow = arrows[start, target]
        if drawn.texts[way] and drawn.texts[way] not in arrow.texts:
            arrow.texts.append(drawn.texts[way])
        arrow.chosen = max(arrow.chosen, *map(_chosen, drawn.paths[way]))
    return list(arrows.values())


def _chosen(path: Sequence[str]) -> float:
    """Return the fraction of a path's bytes before the forced ending."""
    bytes_ = sum(len(part) if i % 2 else bool(part) for i, part in enumerate(path))
    return 1 - len(path[-1]) / bytes_


def automaton_picture(drawn: AutomatonDrawn, name: str) -> str:
    """Draw an automaton.

    Args:
        drawn: Automaton with layout.
        name: CSS class of the document.

    Returns:
        An SVG document, `WIDTH` pixels wide.
    """
    body, height = draw_automaton(drawn)
    inner = tag("g", body, transform=f"translate({MARGIN} {MARGIN})")
    return document(inner, height + 2 * MARGIN, name, STYLE + DRAWN)


def draw_automaton(drawn: AutomatonDrawn) -> tuple[str, float]:
    """Return the SVG elements of an automaton and the height in pixels. Needs the style `DRAWN`."""
    count = len(drawn.states)
    placed = AutomatonLayout(drawn, _shown(drawn))
    size = counted(count, "state") + ("" if drawn.complete else " and more")
    if len(placed.shown) < count:
        size += f"; the {len(placed.shown)} at the start are drawn"
    drawing = "".join([*_parts(placed), *_arrows(placed), *_states(placed)])
    legend = tag("g", _legend(drawn), transform=f"translate(0 {HEADING + placed.height:.0f})")
    heads = [text_at(0, 12, label(f"{drawn.grammar} {drawn.source}", 110), "h")]
    heads += [text_at(0, 30, size, "m"), tag("g", drawing, transform=f"translate(0 {HEADING})")]
    return "".join([*heads, legend]), HEADING + placed.height + LEGEND


def _shown(drawn: AutomatonDrawn) -> frozenset[int]:
    """Return all states, or the states at the start within the limits of a notebook."""
    states = list(range(len(drawn.states)))
    limit, starts = WHOLE, Counter(arrow.start for arrow in arrows_of(drawn))
    if len(states) > WHOLE:
        states = [i for i in states if drawn.rows[i] < ROWS]
        states.sort(key=drawn.columns.__getitem__)
        limit = START
    while limit > 1 and sum(starts[i] for i in states[:limit]) > ARROWS:
        limit //= 2
    return frozenset(states[:limit])


def _legend(drawn: AutomatonDrawn) -> str:
    out = [tag("path", class_="w", d="M0 9h20"), text_at(28, 13, "forced text", "m")]
    out += [_pill((134, 9), 20, 10, "q"), _pill((134, 9), 26, 16, "i")]
    out.append(text_at(154, 13, "text may end", "m"))
    if drawn.allowed:
        out.append(text_at(250, 13, "below a state: how many tokens may follow", "m"))
    return "".join(out)


def _parts(placed: AutomatonLayout) -> Iterator[str]:
    """Yield headings above each band: parts of the pattern or schema."""
    for i, band in enumerate(placed.bands):
        first = {
            placed.at(arrow.start)[0]: arrow.part
            for arrow in reversed(placed.arrows)
            if arrow.track < 0 and arrow.part and placed.band(arrow.start) == i
        }
        last, end = "", 0.0
        for x, part in sorted(first.items()):
            if part != last:
                text_x = max(x - placed.pill / 2, end + 14)
                room = int((INSIDE - text_x - 5) / LETTER)
                if room < 4:
                    continue
                text = label(part, min(32, room))
                yield tag("path", class_="l", d=f"M{text_x:.0f} {band.y + 2:.0f}v12")
                yield text_at(text_x + 5, band.y + 12, text, "m")
                last, end = part, text_x + 5 + LETTER * len(text)


def _arrows(placed: AutomatonLayout) -> Iterator[str]:
    for arrow in placed.arrows:
        lines = placed.lines(arrow)
        yield tag("path", class_="e", d=_path(lines))
        if arrow.chosen < 1:
            style = "w c" if placed.is_crowded(arrow) else "w" if arrow.track < 0 else "w t"
            yield tag("path", class_=style, d=_path(_rest(lines, arrow.chosen)))
        if arrow.target in placed.shown:
            x, y = lines[-1][-1]
            down = arrow.start == arrow.target
            d = f"M{x:.1f} {y:.1f}l1 -8l-7 4z" if down else f"M{x:.1f} {y:.1f}l-7 -3.5v7z"
            yield tag("path", class_="a", d=d)

    labelled: set[tuple[int, str]] = set()
    for arrow in placed.arrows:
        key = arrow.target, arrow.text
        if not placed.is_crowded(arrow) and (arrow.track < 0 or key not in labelled):
            labelled.add(key)
            yield _text(arrow, placed.lines(arrow))


def _text(arrow: Arrow, lines: Lines) -> str:
    """Draw the label above an arrow, or at the start of a bus."""
    room = LETTER * len(arrow.text)
    (x, _), (to, y) = max(pairwise(lines[0]), key=lambda piece: abs(piece[1][0] - piece[0][0]))
    if arrow.track >= 0:
        text_x = min(min(x, to) + 6, INSIDE - room)
        under = tag("rect", class_="p", x=text_x - 2, y=y - 6, width=room + 4, height=12)
        return under + text_at(text_x, y + 4, arrow.text, "b")
    if arrow.start == arrow.target:
        return text_at((x + to - room) / 2, y - 4, arrow.text, "b")
    text_x = x + 8 if len(lines) > 1 else (x + to - room) / 2 - 4
    return text_at(text_x, y - (7 if arrow.chosen < 1 else 4), arrow.text, "b")


def _states(placed: AutomatonLayout) -> Iterator[str]:
    drawn = placed.drawn
    for i in sorted(placed.shown):
        x, y = placed.at(i)
        yield _pill((x, y), placed.pill, PILL, "q")
        if drawn.states[i] in drawn.final:
            yield _pill((x, y), placed.pill + 6, PILL + 6, "i")
        yield text_at(x, y + 4, str(drawn.states[i]), "o")
        if i < len(drawn.allowed):
            yield text_at(x, y + PILL / 2 + 13, f"{drawn.allowed[i]:,}", "y")


def _pill(middle: Point, width: float, height: float, style: str) -> str:
    x, y = middle[0] - width / 2, middle[1] - height / 2
    return tag("rect", class_=style, x=x, y=y, width=width, height=height, rx=height / 2)


def _path(lines: Lines) -> str:
    return "".join(
        f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for line in lines for i, (x, y) in enumerate(line)
    )


def _rest(lines: Lines, share: float) -> Lines:
    """Return the part of the lines after a fraction of the length."""
    skip = share * sum(dist(*piece) for line in lines for piece in pairwise(line))
    remaining: Lines = []
    for line in lines:
        points: list[Point] = []
        for a, b in pairwise(line):
            length = dist(a, b)
            if skip < length:
                at = skip / length
                begin = (a[0] + (b[0] - a[0]) * at, a[1] + (b[1] - a[1]) * at)
                points += [b] if points else [begin, b]
            skip = max(0.0, skip - length)
        remaining += [points] if points else []

    return remaining
