"""Every edition's coverage walk, for tests that need all of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from xverify import contracts
from xverify.core.call import Call
from xverify.strategies import build, walk
from xverify.strategies.structures import Structure
from xverify.strategies.walk import walk_structures

INCLUDED = ("ai.onnx/DequantizeLinear-23", "ai.onnx/DequantizeLinear-24")
"""Editions with the attributes of edition 25 and some of its types: their walks are parts of its walk."""

EDITIONS = tuple(identity for identity in contracts.ids() if identity not in INCLUDED)
EVERY = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def walked(identity: str) -> list[Call]:
    """Return an edition's walk, made once for all tests of a file."""
    return list(walk(contracts.get(identity)))


@cache
def _structures(identity: str) -> list[tuple[Structure, str]]:
    return list(walk_structures(contracts.get(identity)))


def every_nth(identity: str, stride: int) -> list[Call]:
    """Build every nth call of an edition's walk, and no other."""
    contract = contracts.get(identity)
    return [build(contract, structure, origin) for structure, origin in _structures(identity)[::stride]]


def about(identity: str, count: int) -> list[Call]:
    """Build about so many calls, spread over an edition's walk."""
    return every_nth(identity, max(1, len(_structures(identity)) // count))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Free the walks after the tests of each file that imports this fixture. They are large."""
    yield
    walked.cache_clear()
