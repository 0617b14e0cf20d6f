"""Cutting grids: every point once, the same blocks for every caller, chunks as asked."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetcube.grid.plan import tiles

from ..draws import scaled

CUTS = st.builds(
    lambda start, size: slice(start, start + size), st.sampled_from([0, 3]), st.integers(1, 9)
)
REGIONS = st.lists(CUTS, max_size=4).map(lambda cuts: dict(zip("abcd", cuts, strict=False)))


def points(region: tiles.Region) -> list[tuple[int, ...]]:
    return list(product(*(range(cut.start, cut.stop) for cut in region.values())))


@settings(max_examples=scaled(60))
@given(REGIONS, st.integers(1, 50))
def test_blocks_cover_each_point_once(region: tiles.Region, most: int) -> None:
    blocks = list(tiles.blocks(region, most))
    assert max(len(points(block)) for block in blocks) <= most
    assert Counter(point for block in blocks for point in points(block)) == Counter(points(region))


@settings(max_examples=scaled(60))
@given(REGIONS, st.integers(1, 50), st.sets(st.sampled_from("abcd")), st.sampled_from([8, 16, 64]))
def test_bundles_are_alike(region: tiles.Region, most: int, kept: set[str], number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "BUNDLES", number)
        bundles = list(tiles.bundles(region, kept & region.keys(), most))
    blocks = [block for bundle in bundles for block in tiles.blocks(bundle, most)]
    assert sorted(map(points, blocks)) == sorted(map(points, list(tiles.blocks(region, most))))


@pytest.mark.parametrize("keep_asked", [True, False])
def test_chunks_are_as_asked_or_alike_along_every_axis(keep_asked: bool) -> None:
    whole = {"a": 100, "b": 100, "c": 3}
    assert tiles.chunk_sizes(whole, {}, keep_asked, 100) == {"a": 4, "b": 7, "c": 3}
    every = {"a": 50, "b": 500, "c": 2}
    assert tiles.chunk_sizes(whole, every, keep_asked, 100) == {"a": 50, "b": 100, "c": 2}
    some = tiles.chunk_sizes(whole, {"a": 50}, keep_asked, 100)
    assert some == ({"a": 50, "b": 1, "c": 2} if keep_asked else {"a": 4, "b": 7, "c": 3})
