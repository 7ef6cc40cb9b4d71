"""The arguments of an edition's calls, which the worker of a Python kernel checks first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xverify import contracts as editions
from xverify.contracts.model import Contract, Domain
from xverify.core.errors import DocumentError
from xverify.oracles import answers
from xverify.oracles.plugin import USERS
from xverify.oracles.protocol import Oracle
from xverify.oracles.python_target import LoadError
from xverify.oracles.signature import Expected, expected_in, require_signature

_DEFAULTS = {
    "axis": "1",
    "block_size": "0",
    "qtype": '"per_tensor"',
    "mode": '"MIN_COMBINED"',
    "narrow_range": "False",
    "out_dtype": "None",
}
"""The default values of the keywords, as source text."""


def with_signature(kernel: Oracle, held_to: Sequence[Contract]) -> Oracle:
    """The kernel whose worker first checks its signature against the editions.

    Kernels that are not in Python stay as they are.
    """
    target, in_this_process = kernel.arguments[:1], not kernel.module
    if not in_this_process and (kernel.module != USERS.module or len(kernel.arguments) != 1):
        return kernel
    return replace(kernel, arguments=(*target, *(expected(contract).text() for contract in held_to)))


def where_it_fits(kernel: Oracle, swept: Sequence[Contract]) -> Oracle:
    """The kernel for a sweep. It supports only the editions whose calls its signature takes.

    Args:
        swept: The editions of the sweep. Those that the kernel does not answer do not count.
    """
    if kernel.module != USERS.module:
        return kernel
    checked = with_signature(kernel, [contract for contract in swept if answers(kernel, contract.asked_as)])
    return replace(checked, load="load_where_it_fits")


def misfit(function: Callable[..., Any], name: str, kernel: Oracle) -> str | None:
    """The reason why a function of this process cannot take the calls of its editions; None if it can.

    Args:
        kernel: The function's description, with the arguments that `with_signature` added.
    """
    try:
        for text in kernel.arguments:
            require_signature(function, name, expected_in(text))
    except LoadError as error:
        return str(error)
    return None


def expected(contract: Contract) -> Expected:
    """The arguments of an edition's calls."""
    domain = contract.domain
    operands = ("x", "scale", "zero_point") if domain.family == "linear" else ("input", "min_range", "max_range")
    optional = int(domain.family == "linear" and not domain.zero_point_required)
    return Expected(contract.id, operands, optional, _keywords(domain), tuple(_earlier(contract)))


def _keywords(domain: Domain) -> dict[str, str]:
    names = {"output_dtype": "out_dtype", "dtype": "out_dtype"}
    keywords = {names.get(name, name): _DEFAULTS.get(names.get(name, name), "None") for name in domain.attributes}
    if "axis" in keywords and domain.default_axis is None:
        keywords["axis"] = "None"
    return keywords


def _earlier(contract: Contract) -> list[tuple[str, tuple[str, ...]]]:
    """The built-in editions before this one of the same operator, the newest first."""
    family = [name for name in editions.ids() if name.partition("-")[0] == contract.id.partition("-")[0]]
    if contract.id not in family:
        return []
    earlier = []
    for name in reversed(family[: family.index(contract.id)]):
        try:
            earlier.append((name, tuple(_keywords(editions.get(name).domain))))
        except DocumentError:
            continue
    return earlier
