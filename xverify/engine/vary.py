"""Variants: implementations with another instruction set, thread count, denormal mode or kernel set.

Each setting is a variant with a worker of its own, see `xverify.engine.variant_differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xverify.core.errors import UnableError, UsageError
from xverify.core.near import nearest
from xverify.oracles.protocol import Oracle, Setting
from xverify.verify.variants import setting_of, with_setting, without_setting

DIMENSIONS = ("isa", "threads", "denormals", "kernels")
"""Dimensions of a setting.

isa: the instruction set. threads: the threads for one call. denormals: the treatment of subnormal numbers. kernels: the set of
kernels, where an implementation has several.
"""


def dimensions(listed: str) -> tuple[str, ...]:
    """Parse a list of dimensions such as "isa,threads".

    Raises:
        UsageError: A dimension is unknown.
    """
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"{name!r} cannot be varied{nearest(name, DIMENSIONS)}; there are {', '.join(DIMENSIONS)}")
    return names


def variants(oracles: Sequence[Oracle], wanted: Sequence[str]) -> tuple[tuple[Oracle, ...], tuple[str, ...]]:
    """Make a variant of each implementation for each of its settings in the wanted dimensions.

    Returns:
        The variants, and a sentence for each dimension that no implementation has a setting for.
    """
    made = [variant(oracle, setting) for oracle in oracles for setting in oracle.varies if setting.dimension in wanted]
    varied = {oracle.setting.dimension for oracle in made if oracle.setting is not None}
    names = ", ".join(oracle.name for oracle in oracles)
    return tuple(made), tuple(
        f"{name} is not varied: none of {names} has a setting for it" for name in wanted if name not in varied
    )


def variant(oracle: Oracle, setting: Setting) -> Oracle:
    """The implementation with that setting. No edition judges it.

    It has the paths that every call takes, or the first path if there are none.
    """
    return replace(
        oracle,
        name=with_setting(oracle.name, setting.name),
        arguments=(*oracle.arguments, *setting.arguments),
        environment=(*oracle.environment, *setting.environment),
        paths=tuple(path for path in oracle.paths if path.share == 1.0) or oracle.paths[:1],
        judged_by=(),
        varies=(),
        variant_of=oracle.name,
        setting=setting,
    )


def named(name: str, find: Callable[[str], Oracle]) -> Oracle:
    """The implementation of that name, which may be a variant's.

    Args:
        find: Returns the implementation of a name without a setting.

    Raises:
        UnableError: The implementation has no such setting here.
    """
    oracle, wanted = find(without_setting(name)), setting_of(name)
    if not wanted:
        return oracle
    for setting in oracle.varies:
        if setting.name == wanted:
            return variant(oracle, setting)
    raise UnableError(f"{oracle.name} is not run with {wanted} here; it has {listed(oracle)}")


def listed(oracle: Oracle) -> str:
    """The settings that an implementation has, for people."""
    return ", ".join(setting.name for setting in oracle.varies) or "no settings"
