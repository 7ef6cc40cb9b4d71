"""The division of requested units among shards."""

from __future__ import annotations

import pytest

from xverify.certify import ranges
from xverify.core.shard import Shard

REQUESTS = {
    "one slice": ({0: ((0, 65536),)}, 32),
    "slices with gaps": ({-2: ((5, 70), (100, 260)), 1: ((0, 1000),), 3: ((63, 65),)}, 32),
    "larger than a step": (dict.fromkeys(range(-255, 256), ((0, 1 << 32),)), 1 << 18),
    "fewer steps than shards": ({0: ((0, 40),)}, 32),
}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(("requested", "step"), REQUESTS.values(), ids=REQUESTS)
def test_shards_are_disjoint_balanced_and_together_the_request(requested, step, count):
    shards = [ranges.share(requested, step, Shard(index, count)) for index in range(1, count + 1)]
    for part, wanted in requested.items():
        pieces = [interval for shard in shards for interval in shard.get(part, ())]
        assert sum(stop - start for start, stop in pieces) == ranges.count(wanted)
        assert ranges.united(pieces) == wanted
        ends = {end for interval in wanted for end in interval}
        assert all(end % step == 0 or end in ends for interval in pieces for end in interval)
    sizes = [sum(map(ranges.count, shard.values())) for shard in shards]
    assert max(sizes) - min(sizes) < 2 * step


def test_each_shard_has_units_from_everywhere():
    for index in range(1, 5):
        (pieces,) = ranges.share({0: ((0, 65536),)}, 32, Shard(index, 4)).values()
        eighths = {start // 8192 for start, _ in pieces}
        assert eighths == set(range(8))
        assert len(pieces) <= ranges.MOST_ROUNDS
