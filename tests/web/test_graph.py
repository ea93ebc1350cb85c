"""The layout of a graph: layers, loops, edges without a crossing of boxes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.web.graph import MOST, Box, Graph, graph_of


def box(graph: Graph, name: str) -> Box:
    return next(each for each in graph.boxes if each.name == name)


def points(path: str) -> list[tuple[float, float]]:
    """The corners of an orthogonal path."""
    found: list[tuple[float, float]] = []
    for sign, one, other in re.findall(r"([MHV])([-\d.]+)(?: ([-\d.]+))?", path):
        x, y = found[-1] if found else (0.0, 0.0)
        found.append((float(one), float(other)) if sign == "M" else (float(one), y) if sign == "H" else (x, float(one)))
    return found


def test_a_chain_is_a_straight_line() -> None:
    graph = graph_of(["a", "b", "c"], [("a", "b"), ("b", "c")])

    assert [each.x for each in graph.boxes] == sorted({each.x for each in graph.boxes})
    assert len({each.y for each in graph.boxes}) == 1
    assert all("V" not in edge.path for edge in graph.edges)


def test_layers_are_by_the_longest_path() -> None:
    graph = graph_of(["a", "b", "c"], [("a", "c"), ("a", "b"), ("b", "c")])

    assert box(graph, "a").x < box(graph, "b").x < box(graph, "c").x


def test_branches_stand_below_each_other() -> None:
    graph = graph_of(["a", "b", "c", "d"], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])

    assert box(graph, "b").x == box(graph, "c").x
    assert box(graph, "b").y + box(graph, "b").height <= box(graph, "c").y


def test_the_order_of_a_layer_avoids_crossings() -> None:
    routes = [("a", "x"), ("a", "y"), ("x", "q"), ("y", "p")]
    graph = graph_of(["a", "x", "y", "p", "q"], routes)

    assert (box(graph, "x").y < box(graph, "y").y) == (box(graph, "q").y < box(graph, "p").y)


def test_loops_run_below_all_boxes() -> None:
    graph = graph_of(["a", "b"], [("a", "b"), ("b", "a"), ("b", "b")])
    floor = max(each.y + each.height for each in graph.boxes)

    for edge in graph.edges[1:]:
        assert max(y for _, y in points(edge.path)) > floor
    assert graph.height > floor


def test_unknown_steps_are_left_out() -> None:
    assert graph_of(["a"], [("a", "gone"), ("gone", "a")]).edges == ()


@pytest.mark.parametrize(("number", "boxes"), [(0, 0), (MOST, MOST), (MOST + 1, 0)])
def test_large_graphs_are_not_drawn(number: int, boxes: int) -> None:
    assert len(graph_of([f"s{each}" for each in range(number)], []).boxes) == boxes


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_boxes_do_not_overlap_and_edges_join_them(number: int, pairs: list[tuple[int, int]]) -> None:
    names = [f"s{each}" for each in range(number)]
    routes = {(f"s{one}", f"s{other}") for one, other in pairs if one < number and other < number}
    graph = graph_of(names, routes)

    assert {(edge.source, edge.target) for edge in graph.edges} == routes
    for one in graph.boxes:
        assert one.x >= 0 and one.x + one.width <= graph.width and one.y >= 0 and one.y + one.height <= graph.height
        for other in graph.boxes:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert one is other or apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    for edge in graph.edges:
        corners = points(edge.path)
        source, target = box(graph, edge.source), box(graph, edge.target)
        assert corners[0][0] == source.x + source.width and source.y < corners[0][1] < source.y + source.height
        assert corners[-1][0] == target.x and target.y < corners[-1][1] < target.y + target.height
        for x, y in corners:
            assert 0 <= x <= graph.width and 0 <= y <= graph.height
            assert not any(one.x < x < one.x + one.width and one.y < y < one.y + one.height for one in graph.boxes)
