"""Names of shards."""

from __future__ import annotations

import pytest

from xverify.core.errors import UsageError
from xverify.core.shard import Shard, shard_named


def test_a_name_is_read_and_written_alike() -> None:
    assert shard_named(" 3/16 ") == Shard(3, 16)
    assert str(Shard(3, 16)) == "3/16"


@pytest.mark.parametrize("text", ["", "3", "3/", "/4", "0/4", "5/4", "1/0", "1/99999", "-1/4", "1/4/2", "a/b"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        shard_named(text)
