"""Editions from a Python file of the user. The file runs here, and its editions are checked first.

The file defines ``contract() -> Contract``, or several of them as ``CONTRACTS``. Field ``like`` of a Contract names the
built-in edition whose calls have the same form. Implementations get the calls under that edition.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from xverify.arithmetic.reading import Operands
from xverify.contracts.model import Cell, Clause, Contract, Domain, Judgement
from xverify.contracts.single import Number, single_call
from xverify.core.call import Call, code_dtype
from xverify.core.dtypes import FLOATS, QUANTIZED, encode
from xverify.core.errors import ContractFileError, DocumentError

SCALES = (*FLOATS, "float8_e8m0fnu")
"""The types of a scale that the recipes support."""

ZERO_POINTS = (*QUANTIZED, *FLOATS)
"""The types of a zero point that the recipes support."""

_MODULE = "xverify_contract_"
"""The beginning of the module names of edition files."""

_ID = re.compile(r"[a-z][a-z0-9.-]*/[A-Za-z][A-Za-z0-9]*-[0-9]+(@[a-z0-9.-]+)?")


def load(path: Path, built_in: Mapping[str, Callable[[], Contract]]) -> tuple[Contract, ...]:
    """Run a file and check the editions that it defines.

    Args:
        path: The Python file.
        built_in: The built-in editions by id.

    Raises:
        ContractFileError: The file has a mistake. The message is one sentence on the first one.
        DocumentError: The document of the edition that ``like`` names cannot be read here.
    """
    module = _run(path)
    contracts = _defined(path, module)
    for index, contract in enumerate(contracts):
        if not isinstance(contract, Contract):
            _fail(path, f"an edition is an xverify.contracts.Contract, not a {type(contract).__name__}")
        if any(contract.id == other.id for other in contracts[:index]):
            _fail(path, f"the id {contract.id!r} is given to two editions")
        for check in (_check_id, _check_clauses, _check_domain, _check_likeness):
            for mistake in check(contract, built_in):
                _fail(path, f"{contract.id}: {mistake}")
        for mistake in _check_calls(path, contract):
            _fail(path, f"{contract.id}: {mistake}")
    return contracts


def blamed_file(error: BaseException) -> str | None:
    """A sentence on an exception that a function of an edition's file raised; else None."""
    files = {str(module.__file__) for name, module in list(sys.modules.items()) if name.startswith(_MODULE)}
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        frames = [frame for frame in traceback.extract_tb(current.__traceback__) if frame.filename in files]
        if frames:
            return f"{frames[-1].filename}: {_raised(f'{frames[-1].name}()', current, Path(frames[-1].filename))}"
        waiting += [current.__context__, current.__cause__, *getattr(current, "exceptions", ())]
    return None


def _fail(path: Path, sentence: str) -> NoReturn:
    raise ContractFileError(f"{path}: {sentence}")


# -- the file -----------------------------------------------------------------------------------------


def _run(path: Path) -> ModuleType:
    """Run the file as a module. The module is registered, since dataclasses look their module up."""
    try:
        source = path.read_bytes()
    except OSError as error:
        _fail(path, f"the file cannot be read: {error.strerror}")
    module = ModuleType(_MODULE + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12])
    module.__file__ = str(path)
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        _fail(path, f"line {error.lineno or 1}: {error.msg}")
    except ValueError as error:
        _fail(path, f"it is not Python: {error}")
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        _fail(path, _raised("running it", error, path))
    return module


def _defined(path: Path, module: ModuleType) -> tuple[Contract, ...]:
    several, make_contract = getattr(module, "CONTRACTS", None), getattr(module, "contract", None)
    if several is not None:
        if not isinstance(several, Sequence) or isinstance(several, str) or not several:
            _fail(path, "CONTRACTS is a tuple of one or more Contracts")
        return tuple(several)
    if not callable(make_contract):
        _fail(path, "it defines neither a function contract() nor CONTRACTS")
    try:
        return (make_contract(),)
    except DocumentError:
        raise
    except Exception as error:
        _fail(path, _raised("contract()", error, path))


def _raised(what: str, error: BaseException, path: Path) -> str:
    """A sentence on an exception, with the last line of the file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f"line {lines[-1]}: " if lines else ""
    text = str(error).partition("\n")[0]
    return f"{where}{what} raised {type(error).__name__}{': ' + text if text else ''}"


# -- the edition --------------------------------------------------------------------------------------

BuiltIn = Mapping[str, Callable[[], Contract]]


def _check_id(contract: Contract, built_in: BuiltIn) -> Iterator[str]:
    if not isinstance(contract.id, str) or not _ID.fullmatch(contract.id):
        yield 'an id looks like "vendor/Operator-1", with "@edition" after it where there are several'
        return
    owners = {identity.partition("/")[0] for identity in built_in}
    if contract.id in built_in:
        yield "the id is that of a built-in edition"
    elif contract.id.partition("/")[0] in owners:
        yield f"ids of {contract.id.partition('/')[0]} are the built-in editions'; begin yours with the vendor's own name"


def _check_clauses(contract: Contract, built_in: BuiltIn) -> Iterator[str]:
    if not isinstance(contract.clauses, Mapping) or not contract.clauses:
        yield "clauses maps each clause's id to its Clause, and there is none"
        return
    for identity, clause in contract.clauses.items():
        if not isinstance(clause, Clause):
            yield f"the clause {identity!r} is a {type(clause).__name__}, not a Clause"
        elif clause.id != identity:
            yield f"the clause {clause.id!r} is listed as {identity!r}"
        elif not clause.id.startswith(contract.id + "/") or "/" in clause.id.removeprefix(contract.id + "/"):
            yield f"the id of the clause {clause.id!r} does not begin with the edition's: {contract.id}/<name>"
        elif not clause.text and not clause.note:
            yield f"the clause {clause.id!r} has no text; where the document is silent, a note says on what"
    if not any(clause.id.startswith(contract.id + "/formula") and clause.text for clause in contract.clauses.values()):
        yield f'no clause gives the formula: one is called "{contract.id}/formula" and quotes it'


def _check_domain(contract: Contract, built_in: BuiltIn) -> Iterator[str]:
    domain = contract.domain
    if not isinstance(domain, Domain):
        yield f"the domain is a {type(domain).__name__}, not a Domain"
        return
    if domain.family not in ("linear", "range"):
        yield f"the family is linear or range, not {domain.family!r}"
    scales = SCALES if domain.family == "linear" else ("float32",)
    for name, admitted in (
        ("x_dtypes", QUANTIZED),
        ("scale_dtypes", scales),
        ("output_dtypes", FLOATS),
        ("granularities", ("per_tensor", "per_axis", "blocked")),
    ):
        listed = getattr(domain, name)
        if not isinstance(listed, tuple) or not listed:
            yield f"the domain is empty: {name} is a tuple of one or more of {', '.join(admitted)}"
        elif set(listed) - set(admitted):
            odd = sorted(set(listed) - set(admitted), key=str)[0]
            yield f"{name} has {odd!r}, which is none of {', '.join(admitted)}"
    listed = domain.zero_point_dtypes
    if listed is not None and not isinstance(listed, tuple):
        yield "zero_point_dtypes is a tuple of types, or None where a zero point has the type of x"
    elif set(listed or ()) - set(ZERO_POINTS):
        odd = sorted(set(listed or ()) - set(ZERO_POINTS), key=str)[0]
        yield f"zero_point_dtypes has {odd!r}, which is none of {', '.join(ZERO_POINTS)}"
    if domain.zero_point_required and listed == ():
        yield "zero_point_required is set, and zero_point_dtypes is empty: list the types of a zero point"
    if domain.family == "range" and not domain.modes:
        yield "a range edition has modes, and the domain lists none"


def _check_likeness(contract: Contract, built_in: BuiltIn) -> Iterator[str]:
    if not contract.like:
        yield "like is empty: it must name the built-in edition with the same form of calls, so that implementations get calls"
    elif contract.like not in built_in:
        yield f"like is {contract.like!r}, which is no built-in edition; there are {', '.join(built_in)}"
    elif built_in[contract.like]().domain.family != contract.domain.family:
        yield f"it is of the {contract.domain.family} family, and {contract.like} is not"


# -- its functions ------------------------------------------------------------------------------------


class _OddError(Exception):
    """A function of the edition returns something wrong. The message is a sentence."""


def _check_calls(path: Path, contract: Contract) -> Iterator[str]:
    """Check the edition's functions on the simplest call of each pair of types.

    The values of such a call are x 1, zero point 0 and scale 1, or a range of -1 to 1.
    """
    checked = replace(contract, judge=lambda call: _judgement(contract, contract.judge(call)))
    allowed = 0
    refused: tuple[str, ...] = ()
    for operands, attributes in _simplest(contract.domain):
        types = ", ".join(f"{role} {dtype}" for role, (dtype, _) in operands.items())
        function = "judge"
        try:
            call = single_call(checked, operands, attributes)
            judgement = contract.judge(call)
            if judgement.verdict != "allowed":
                refused = judgement.clauses
                continue
            allowed += 1
            for function, check in _USES.items():  # noqa: B007 (the message below names it)
                check(contract, call)
        except _OddError as error:
            yield f"{error} ({types})"
            return
        except Exception as error:
            yield _raised(f"{function} of the simplest call ({types})", error, path)
            return
    if not allowed:
        yield f"it allows none of its simplest calls, by {', '.join(refused) or 'no clause'}"


def _simplest(domain: Domain) -> Iterator[tuple[dict[str, Number], dict[str, int | str | bool]]]:
    for x in domain.x_dtypes:
        for scale in domain.scale_dtypes:
            if domain.family == "range":
                ends = {"min_range": _number(scale, -1), "max_range": _number(scale, 1)}
                for mode in domain.modes:
                    yield {"input": _number(x, 1), **ends}, {"mode": mode}
                continue
            needs_output_dtype = domain.output_dtype_attribute and scale not in domain.output_dtypes
            output_dtype: dict[str, int | str | bool] = (
                {"output_dtype": domain.output_dtypes[0]} if needs_output_dtype else {}
            )
            operands = {"x": _number(x, 1), "scale": _number(scale, 1)}
            for zero_point in domain.zero_points_for(x):
                yield {**operands, "zero_point": _number(zero_point, 0)}, output_dtype
            if not domain.zero_points_for(x):
                yield operands, output_dtype


def _number(dtype: str, value: int) -> Number:
    return dtype, int(np.asarray(encode(dtype, value)).reshape(()))


def _judgement(contract: Contract, judgement: Any) -> Judgement:
    """The judgement itself.

    Raises:
        _OddError: It is no judgement, or its clauses are not those of the edition.
    """
    if not isinstance(judgement, Judgement):
        raise _OddError(f"judge gives a {type(judgement).__name__}, not a Judgement")
    if judgement.verdict not in ("allowed", "forbidden", "unspecified"):
        raise _OddError(f"judge gives the verdict {judgement.verdict!r}")
    for clause in judgement.clauses:
        if clause not in contract.clauses:
            raise _OddError(f"judge names the clause {clause!r}, which the edition does not have")
    if judgement.verdict != "allowed" and not judgement.clauses:
        raise _OddError(f"judge says {judgement.verdict} and names no clause")
    return judgement


def _check_cell(contract: Contract, call: Call) -> None:
    cell = contract.cell(call)
    if not isinstance(cell, Cell):
        raise _OddError(f"cell gives a {type(cell).__name__}, not a Cell")
    if cell.contract != contract.id:
        raise _OddError(f"cell gives one of the edition {cell.contract!r}")


def _check_operands(contract: Contract, call: Call) -> None:
    operands = contract.operands(call)
    if not isinstance(operands, Operands):
        raise _OddError(f"operands gives a {type(operands).__name__}, not Operands")
    if operands.output_dtype not in contract.domain.output_dtypes:
        raise _OddError(f"operands gives the output type {operands.output_dtype!r}, which the domain does not list")
    if operands.shape != call.data.shape:
        raise _OddError(f"operands gives the shape {operands.shape}, not that of x")


def _check_readings(contract: Contract, call: Call) -> None:
    operands, readings = contract.operands(call), contract.readings(call)
    if not isinstance(readings, tuple) or not readings:
        raise _OddError("readings gives no reading: it is a tuple of one or more")
    if len({reading.name for reading in readings}) < len(readings):
        raise _OddError("two readings have the same name")
    expected = code_dtype(operands.output_dtype)
    for reading in readings:
        hash(reading)
        for codes in (reading.evaluate(operands), reading.simplified(operands).evaluate(operands)):
            if np.asarray(codes).dtype != expected or np.shape(codes) != operands.shape:
                got = f"{np.asarray(codes).dtype} {np.shape(codes)}"
                raise _OddError(f"the reading {reading.name!r} gives {got}, not {expected} codes in the shape of x")


def _check_value_clause(contract: Contract, call: Call) -> None:
    for name in (None, *(reading.name for reading in contract.readings(call)), "another"):
        clause = contract.value_clause(call, name)
        if clause not in contract.clauses:
            raise _OddError(f"value_clause gives {clause!r}, which the edition does not have")


_USES: Mapping[str, Callable[[Contract, Call], None]] = {
    "cell": _check_cell,
    "operands": _check_operands,
    "readings": _check_readings,
    "value_clause": _check_value_clause,
}
"""The check of each function on an allowed call. A check raises _OddError."""
