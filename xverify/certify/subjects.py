"""The arguments of ``xverify certify``: subject, domain, form of the calls, and units."""

from __future__ import annotations

from xverify.certify.bulk import Granularity, Through
from xverify.certify.domains import Domain, GivenScales, Pairs, named, names
from xverify.certify.expected import RECIPES
from xverify.contracts.model import Contract
from xverify.core.errors import UsageError
from xverify.core.near import nearest
from xverify.engine import select
from xverify.engine.numerals import code_of, numeral
from xverify.environments import naming
from xverify.environments.installers import Say
from xverify.oracles import all_oracles, answers
from xverify.oracles.protocol import Oracle


def subject_named(target: str, say: Say) -> Oracle:
    """Return the implementation of a name NAME[:OPTION][==VERSION | @PYTHON], or the kernel of a TARGET.

    Raises:
        UsageError: There is none.
        EnvironmentFailedError: The version cannot be installed.
    """
    parts = naming.parse_or_none(target)
    if parts is not None and parts.name in all_oracles():
        return select.oracle_named(target, say)
    return select.kernel_named(target)


def domain_named(name: str, zero_point: str, scales: tuple[str, ...]) -> Domain:
    """Return the domain that a user names.

    Args:
        name: Name of the domain.
        zero_point: "all" or "absent".
        scales: Scales as typed.

    Raises:
        UsageError: There is no such domain, or these options do not apply to it.
    """
    if name not in names():
        raise UsageError(f"no domain is called {name!r}{nearest(name, names())}; see: xverify certify --list")
    scale_dtype = name.removesuffix("-spread").partition("-")[2]
    scale_codes = [code_of(numeral(text, "scale"), scale_dtype, "scale") for text in scales]
    try:
        domain = named(name, zero_point == "all", scale_codes)
    except ValueError:
        raise UsageError(
            f"{name} consists of differences x - zero point: --zero-point absent does not apply to it"
        ) from None
    if isinstance(domain, GivenScales) != bool(scales):
        raise UsageError(
            f"{name} needs scales: add --scale NUMBER, for example --scale 0x1.8p-3, once for each scale"
            if isinstance(domain, GivenScales)
            else f"{name} already contains its scales: --scale is only for domains of 16-bit types"
        )
    return domain


def through_of(
    oracle: Oracle, contract_id: str | None, domain: Domain, granularity: Granularity, out: str | None
) -> Through:
    """Return the form in which triples become calls.

    Raises:
        UsageError: The edition does not allow such calls, or the implementation does not have the edition.
    """
    contract = select.contract_named(contract_id or select.edition_by_default(oracle))
    if contract.domain.family != "linear":
        raise UsageError(f"{contract.id} has no scale and zero point: certify handles linear editions only")
    if not answers(oracle, contract.asked_as):
        raise UsageError(f"{oracle.name} does not implement {contract.id}; it implements {', '.join(oracle.contracts)}")
    for role, dtype, admitted in (
        ("x", domain.x_dtype, contract.domain.x_dtypes),
        ("scale", domain.scale_dtype, contract.domain.scale_dtypes),
    ):
        if dtype not in admitted:
            raise UsageError(f"{contract.id} does not allow {dtype} for {role}; it allows {', '.join(admitted)}")
    admitted = contract.domain.zero_points_for(domain.x_dtype)
    if domain.has_zero_point and domain.x_dtype not in admitted:
        raise UsageError(
            f"{contract.id} has no zero points of {domain.x_dtype}, the type of x, but of {', '.join(admitted) or 'no type'}; "
            "certify has no domain with those, but xverify gate checks them"
        )
    result = out or _natural(contract, domain)
    if result != domain.scale_dtype and not contract.domain.output_dtype_attribute:
        raise UsageError(
            f"{contract.id} has no output_dtype: leave --out-dtype out, since the output has the type of the scale"
        )
    through = Through(contract, domain, granularity, result)
    part = domain.slices[len(domain.slices) // 2]
    few = domain.columns(part, 0, 1).some(slice(0, through.each), slice(None))
    judgement = contract.judge(through.call(few))
    if judgement.verdict != "allowed":
        clauses = ", ".join(clause.rpartition("/")[2] for clause in judgement.clauses)
        raise UsageError(f"{contract.id} does not allow such calls ({clauses}): {domain.name}, {granularity}, {result}")
    return through


def _natural(contract: Contract, domain: Domain) -> str:
    outputs = contract.domain.output_dtypes
    return domain.scale_dtype if domain.scale_dtype in outputs else outputs[0]


def readings_of(through: Through) -> tuple[str, ...]:
    """Return the names of the readings that the edition admits.

    Raises:
        UsageError: `expected` does not define one of them.
    """
    domain = through.domain
    few = domain.columns(domain.slices[0], 0, 1).some(slice(0, through.each), slice(None))
    names = tuple(reading.name for reading in through.contract.readings(through.call(few)))
    for name in names:
        if name not in RECIPES:
            raise UsageError(
                f"{through.contract.id} admits the reading {name}, which certify does not support; choose another --contract"
            )
    return names


def parts_asked(domain: Domain, units: str | None, differences: str | None) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return the units that a user requests, by slice.

    Args:
        domain: The domain.
        units: Range of units as typed, or None for all.
        differences: Differences as typed, or None for all.

    Raises:
        UsageError: An argument does not have the right form, or does not apply to the domain.
    """
    start, stop = _bounds(units, 0, domain.units, "--range", f"{domain.unit}s")
    parts = domain.slices
    if differences is not None:
        if isinstance(domain, (Pairs, GivenScales)):
            raise UsageError(
                f"{domain.name} is not divided by differences: --difference is only for domains TYPE-float32"
            )
        text = differences if ":" in differences else f"{differences}:{_plus_one(differences)}"
        low, high = _bounds(text, domain.slices[0], domain.slices[-1] + 1, "--difference", "differences")
        parts = range(low, high)
    return dict.fromkeys(parts, ((start, stop),))


def _plus_one(text: str) -> str:
    try:
        return str(int(text, 0) + 1)
    except ValueError:
        return text


def _bounds(text: str | None, lowest: int, highest: int, option: str, what: str) -> tuple[int, int]:
    if text is None:
        return lowest, highest
    first, colon, last = text.partition(":")
    try:
        start, stop = int(first, 0) if first else lowest, int(last, 0) if last else highest
    except ValueError:
        colon = ""
    if not colon or not lowest <= start < stop <= highest:
        raise UsageError(f"{option} takes A:B, for {what} A to B-1, within {lowest}:{highest}; not {text!r}")
    return start, stop
