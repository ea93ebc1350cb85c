"""`graph_of` places the steps of a flow in layers and routes the edges between them: names in, coordinates out.

1. An edge that closes a loop is found by a depth-first walk from the first step; it does not count for the layers.
2. The layer of a step is the longest path to it.
3. An edge over several layers passes each layer between in a place of that layer.
4. Each layer is ordered by the medians of its neighbours, in one pass forward and one back.
5. Edges are orthogonal. Those that leave the same step share a track between two layers; loops run below all steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

import msgspec

__all__ = ["MOST", "Box", "Edge", "Graph", "graph_of"]

MOST = 200
"""Steps of a graph, at most; a larger one is not drawn."""

WIDTH, HEIGHT = 152, 48
"""Size of a step, in units of the drawing."""

BELOW = 16
"""Units between two steps of a layer."""

THIN = 12
"""Height of the place where an edge passes a layer."""

TRACK = 12
"""Units between two vertical parts of edges."""

GAP = 40
"""Units between two layers, at least."""

LANE = 12
"""Units between two loops below the steps."""

MARGIN = 2


class Box(msgspec.Struct, frozen=True):
    """A step: where it stands."""

    name: str
    x: float
    y: float
    width: float = WIDTH
    height: float = HEIGHT


class Edge(msgspec.Struct, frozen=True):
    """A way from a step to another one. `path` ends at the left side of the target, where the arrow is."""

    source: str
    target: str
    path: str


class Graph(msgspec.Struct, frozen=True):
    """Steps and edges with their coordinates. Empty if there are more than `MOST` steps."""

    boxes: tuple[Box, ...] = ()
    edges: tuple[Edge, ...] = ()
    width: float = 0
    height: float = 0


class _Place(msgspec.Struct):
    """A place in a layer: that of a step, or one where an edge passes."""

    name: str
    """Name of the step; empty if an edge passes here."""

    layer: int
    before: list[_Place] = []
    after: list[_Place] = []
    order: int = 0
    y: float = 0.0

    @property
    def height(self) -> float:
        return HEIGHT if self.name else THIN

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def graph_of(names: Sequence[str], routes: Iterable[tuple[str, str]]) -> Graph:
    """Lay out these steps, the first one first, and the routes between them. Routes to unknown steps are left out."""
    known = list(dict.fromkeys(names))
    if not known or len(known) > MOST:
        return Graph()
    edges = [each for each in dict.fromkeys(routes) if each[0] in set(known) and each[1] in set(known)]
    loops = _loops(known, edges)
    layers = _layers(known, [each for each in edges if each not in loops])
    places = {name: _Place(name, layers[name]) for name in known}
    chains = {edge: _chain(places[edge[0]], places[edge[1]]) for edge in edges if edge not in loops}
    columns = _columns(places, chains.values())
    _order(columns)
    _stack(columns)
    return _drawn(columns, places, chains, sorted(loops, key=edges.index))


# Layers.


def _loops(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that lead back to a step on the way to their source, in a walk from the first step on."""
    following: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        following[source].append(target)
    found: set[tuple[str, str]] = set()
    done: set[str] = set()
    for root in names:
        way: dict[str, int] = {root: 0} if root not in done else {}
        while way:
            name, number = next(reversed(way.items()))
            if number == len(following[name]):
                del way[name]
                done.add(name)
                continue
            way[name] = number + 1
            target = following[name][number]
            if target in way:
                found.add((name, target))
            elif target not in done:
                way[target] = 0
    return found


def _layers(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest path to each step. Without loops, it is known after as many rounds as there are steps."""
    layers = dict.fromkeys(names, 0)
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            if layers[target] <= layers[source]:
                layers[target] = layers[source] + 1
                changed = True
    return layers


def _chain(source: _Place, target: _Place) -> list[_Place]:
    """The places that an edge goes through, with its ends."""
    chain = [source, *(_Place("", layer) for layer in range(source.layer + 1, target.layer)), target]
    for one, other in itertools.pairwise(chain):
        one.after.append(other)
        other.before.append(one)
    return chain


def _columns(places: Mapping[str, _Place], chains: Iterable[Sequence[_Place]]) -> list[list[_Place]]:
    columns: list[list[_Place]] = [[] for _ in range(max(place.layer for place in places.values()) + 1)]
    for place in (*places.values(), *(each for chain in chains for each in chain[1:-1])):
        place.order = len(columns[place.layer])
        columns[place.layer].append(place)
    return columns


# Order and height.


def _order(columns: Sequence[list[_Place]]) -> None:
    """Order each layer by the medians of its neighbours: once by those before it, once by those behind it."""
    for column in columns[1:]:
        _sort(column, "before")
    for column in reversed(columns[:-1]):
        _sort(column, "after")


def _sort(column: list[_Place], side: str) -> None:
    def rank(place: _Place) -> float:
        neighbours: list[_Place] = getattr(place, side)
        return median_low([each.order for each in neighbours]) if neighbours else place.order

    column.sort(key=rank)  # stable: those of the same rank keep their order
    for number, place in enumerate(column):
        place.order = number


def _stack(columns: Sequence[list[_Place]]) -> None:
    """Give each place its height: layers are centred, so that a chain is a straight line."""
    heights = [sum(place.height for place in column) + BELOW * (len(column) - 1) for column in columns]
    for column, height in zip(columns, heights, strict=True):
        y = MARGIN + (max(heights) - height) / 2
        for place in column:
            place.y = y
            y += place.height + BELOW


# Drawing.


def _drawn(
    columns: Sequence[Sequence[_Place]],
    places: Mapping[str, _Place],
    chains: Mapping[tuple[str, str], Sequence[_Place]],
    loops: Sequence[tuple[str, str]],
) -> Graph:
    tracks = _tracks(columns, places, chains, loops)
    lefts, right = [], MARGIN + _gap(tracks[0], 0)
    for number in range(len(columns)):
        lefts.append(right)
        last = number == len(columns) - 1
        right += WIDTH + _gap(tracks[number + 1], 0 if last else GAP)

    def track_at(gap: int, key: object) -> float:
        """X of a track in the gap before a layer; the last gap is behind the last layer."""
        begin = lefts[gap - 1] + WIDTH if gap else MARGIN
        room = (lefts[gap] if gap < len(columns) else right) - begin
        return round(begin + room * (tracks[gap].index(key) + 1) / (len(tracks[gap]) + 1), 1)

    floor = max(place.y + place.height for column in columns for place in column)
    edges = [Edge(*edge, _forward(chain, lefts, track_at)) for edge, chain in chains.items()]
    for number, (source, target) in enumerate(loops):
        lane = floor + LANE * (number + 1)
        one, other = places[source], places[target]
        out, back = track_at(one.layer + 1, ("loop", source, target)), track_at(other.layer, ("back", source, target))
        path = (
            f"M{lefts[one.layer] + WIDTH} {one.middle + 8}H{out}V{lane}H{back}V{other.middle + 8}H{lefts[other.layer]}"
        )
        edges.append(Edge(source, target, path))
    boxes = tuple(Box(name, lefts[place.layer], place.y) for name, place in places.items())
    height = floor + LANE * len(loops) + MARGIN + (LANE / 2 if loops else 0)
    return Graph(boxes, tuple(edges), right + MARGIN, height)


def _tracks(
    columns: Sequence[Sequence[_Place]],
    places: Mapping[str, _Place],
    chains: Mapping[tuple[str, str], Sequence[_Place]],
    loops: Sequence[tuple[str, str]],
) -> list[list[object]]:
    """The vertical parts of edges in the gap before each layer, and behind the last, from left to right."""
    tracks: list[list[object]] = [[] for _ in range(len(columns) + 1)]
    for chain in chains.values():
        for one, other in itertools.pairwise(chain):
            if one.middle != other.middle and id(one) not in tracks[other.layer]:
                tracks[other.layer].append(id(one))
    for source, target in loops:
        tracks[places[source].layer + 1].append(("loop", source, target))
        tracks[places[target].layer].insert(0, ("back", source, target))
    return tracks


def _gap(tracks: Sequence[object], least: float) -> float:
    return max(least, TRACK * (len(tracks) + 1)) if tracks else least


def _forward(chain: Sequence[_Place], lefts: Sequence[float], track_at: object) -> str:
    assert callable(track_at)
    path = f"M{lefts[chain[0].layer] + WIDTH} {chain[0].middle}"
    for one, other in itertools.pairwise(chain):
        if one.middle != other.middle:
            path += f"H{track_at(other.layer, id(one))}V{other.middle}"
        path += f"H{lefts[other.layer] + (0 if other.name else WIDTH)}"
    return path
