"""Check of a Python kernel's signature, before its first call.

A kernel that lacks a keyword would raise TypeError in every call that has it. These errors would look like refusals of allowed
calls. The check replaces them by one sentence that says what to change.
"""

from __future__ import annotations

import inspect
import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from xverify.oracles.python_target import LoadError

Function = Callable[..., Any]


class Expected(NamedTuple):
    """The arguments of an edition's calls."""

    edition: str
    operands: Tuple[str, ...]
    """The tensors, by position."""
    optional: int
    """The number of tensors at the end that a call may lack."""
    keywords: Dict[str, str]
    """The keywords that a call may have, each with the source text of its default value."""
    earlier: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()
    """Other editions of the operator and their keywords, the newest first."""

    def text(self) -> str:
        return json.dumps(self._asdict())


def expected_in(text: str) -> Expected:
    """The expectation that `Expected.text` wrote."""
    read = json.loads(text)
    earlier = tuple((name, tuple(keywords)) for name, keywords in read["earlier"])
    return Expected(read["edition"], tuple(read["operands"]), read["optional"], read["keywords"], earlier)


def require_signature(function: Function, name: str, expected: Expected) -> None:
    """Check that a function takes every call of an edition.

    Functions without a readable signature, and those that take any keyword, pass.

    Args:
        name: The function as the user knows it.

    Raises:
        LoadError: The function cannot take some calls. The message says what to change.
    """
    signature = _signature(function)
    if signature is None:
        return
    parameters = signature.parameters.values()
    mistakes = _of_operands(parameters, expected) + _of_keywords(parameters, expected)
    if mistakes:
        raise LoadError("%s does not fit the calls of %s: %s" % (name, expected.edition, "; ".join(mistakes)))


def misfits(function: Function, name: str, editions: Sequence[Expected]) -> Dict[str, str]:
    """The editions whose calls a function cannot take, each with the reason.

    Args:
        name: The function as the user knows it.

    Raises:
        LoadError: It can take the calls of none. The message says what to change for the first edition.
    """
    reasons = {}
    for expected in editions:
        try:
            require_signature(function, name, expected)
        except LoadError as error:
            reasons[expected.edition] = str(error)
    if editions and len(reasons) == len(editions):
        raise LoadError(next(iter(reasons.values())))
    return reasons


def _signature(function: Function) -> Optional[inspect.Signature]:
    """The signature by which Python binds the arguments of a call; None if it is unknown.

    The signature of a decorator's function counts, not that of the wrapped function. Numba shows only the wrapped one.
    """
    for follow in (False, True):
        try:
            return inspect.signature(function, follow_wrapped=follow)
        except (TypeError, ValueError):
            continue
    return None


def _of_operands(parameters: Any, expected: Expected) -> List[str]:
    """Mistakes in the parameters for tensors, which are passed by position."""
    kinds = inspect.Parameter
    if any(parameter.kind == kinds.VAR_POSITIONAL for parameter in parameters):
        return []
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    operands = ", ".join(expected.operands)
    if len(positional) < len(expected.operands):
        count = "%d argument%s" % (len(positional), "" if len(positional) == 1 else "s")
        return ["it takes %s by position, and calls have %s there" % (count, operands)]
    mistakes = []
    for parameter in positional[len(expected.operands) - expected.optional : len(expected.operands)]:
        if parameter.default is kinds.empty:
            mistakes.append("write %s=None, because a call may have no %s" % (parameter.name, parameter.name))
    for parameter in positional[: len(expected.operands)]:
        if parameter.name in expected.keywords:
            mistakes.append(
                "the parameter %s stands where a tensor comes: put it after %s" % (parameter.name, operands)
            )
    return mistakes


def _of_keywords(parameters: Any, expected: Expected) -> List[str]:
    """Mistakes in the other parameters."""
    kinds = inspect.Parameter
    by_name = {p.name: p for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)}
    takes_any = any(parameter.kind == kinds.VAR_KEYWORD for parameter in parameters)
    missing = [] if takes_any else [name for name in expected.keywords if name not in by_name]
    mistakes = []
    if missing:
        words = ", ".join("%s=%s" % (name, expected.keywords[name]) for name in missing)
        mistakes.append("add %s to its parameters%s" % (words, _instead(set(by_name), expected)))
    for name, default in expected.keywords.items():
        if name in by_name and by_name[name].default is kinds.empty:
            mistakes.append("write %s=%s, because a call may have no %s" % (name, default, name))
    beyond = [
        parameter.name
        for position, parameter in enumerate(parameters)
        if parameter.default is kinds.empty
        and parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
        and parameter.name not in expected.keywords
        and (position >= len(expected.operands) or parameter.kind == kinds.KEYWORD_ONLY)
    ]
    if beyond:
        mistakes.append("give a default to %s, which no call has" % ", ".join(beyond))
    return mistakes


def _instead(names: Any, expected: Expected) -> str:
    """The newest edition whose keywords the function has."""
    for edition, keywords in expected.earlier:
        if names.issuperset(keywords):
            lacking = "without it" if len(expected.keywords) - len(keywords) == 1 else "without them"
            return ", or name an edition %s: --contract %s" % (lacking, edition)
    return ""
