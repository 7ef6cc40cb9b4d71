"""One recipe for many cells: it gives the values of most cells and has the same words for all."""

from __future__ import annotations

import random

from cell_calls import IGNORES, NEWEST, ONNX, WRAPS, calls
from lattice_oracles import SUBJECT, follows

from xverify.arithmetic.reading import Operands
from xverify.arithmetic.readings import EXACT, Stepwise
from xverify.contracts import get
from xverify.strategies import build
from xverify.strategies.structures import Linear
from xverify.verify.attribute import named
from xverify.verify.departures import departures
from xverify.verify.shared_recipe import common
from xverify.verify.tally import Tally
from xverify.verify.verdicts import judge


def operands_of(x_dtype: str, out: str = "float32") -> Operands:
    zero_point = "int32" if x_dtype == "int32" else x_dtype
    call = build(NEWEST, Linear(x_dtype, "float32", "per_axis", (4, 80), zero_point, out))
    return NEWEST.operands(call)


def typed(x_dtype: str, zero_point: str = "", out: str = "float32") -> Operands:
    dtypes = {"x": x_dtype, "scale": "float32"} | ({"zero_point": zero_point} if zero_point else {})
    return Operands({}, dtypes, out, ())


def test_one_recipe_for_many_cells() -> None:
    """8-bit differences never wrap in int32. Rounding to float32 shows with int32 only."""
    small, wide, other = operands_of("int8"), typed("int32", "int32"), operands_of("int16")
    single = Stepwise(precision="float32")
    for order in (1, -1):
        groups = [
            ("one", small, (IGNORES,)),
            ("one", wide, (Stepwise("ignored", precision="float64"), Stepwise("ignored", precision="float32"))),
            ("one", other, ()),
            ("two", small, (WRAPS, single.simplified(small))),
        ][::order]
        chosen = common(groups)[::order]
        assert chosen[2] is None
        assert chosen[0] == chosen[1], "one recipe explains both"
        assert chosen[3] in (WRAPS, EXACT, single.simplified(small))
        for (_, operands, readings), reading in zip(groups[::order], chosen, strict=True):
            assert reading is None or reading.simplified(operands) in {r.simplified(operands) for r in readings}


def test_the_recipe_of_most_cells_is_taken_first() -> None:
    types = [operands_of(x) for x in ("int8", "uint8", "int16", "int4")]
    sets = [(WRAPS, IGNORES), (IGNORES,), (IGNORES, WRAPS), (WRAPS,)]
    chosen = common([("one", operands, readings) for operands, readings in zip(types, sets, strict=True)])
    assert chosen[1] == IGNORES
    assert chosen[3] == WRAPS
    assert chosen[0] == chosen[2]
    apart = common(
        [(number, operands, readings) for number, (operands, readings) in enumerate(zip(types, sets, strict=True))]
    )
    assert [reading in readings for reading, readings in zip(apart, sets, strict=True)] == [True] * 4


def test_a_cell_that_does_not_show_a_wrong_subtraction_is_not_named_after_it() -> None:
    ignores, rounds = Stepwise("ignored", precision="float32"), Stepwise(precision="float32")
    shows, without = typed("int16", "int16", "float16"), typed("int16", "", "float16")
    cells = [("one", shows, (ignores,)), ("one", without, (rounds.simplified(without),))]
    assert common(cells) == [ignores, rounds]


def test_the_output_type_is_named_as_such() -> None:
    cells = [operands_of("int16", out) for out in ("float16", "bfloat16")]
    readings = [Stepwise("ignored", difference="output").simplified(operands) for operands in cells]
    assert readings[0] != readings[1]
    chosen = common([("one", operands, (reading,)) for operands, reading in zip(cells, readings, strict=True)])
    assert chosen == [Stepwise("ignored", difference="output")] * 2


def test_cells_of_one_implementation_are_one_finding() -> None:
    tally = Tally()
    for x_dtype in ("int8", "int32"):
        for call in calls(x_dtype, "per_axis", 3, random.Random(3)):
            # int32 must have a zero point of 0, so only the rounding shows.
            judged = judge(ONNX, call)
            truth = Stepwise(scale_cast="float16", precision="float32")
            tally.observe(judged, SUBJECT, follows(ONNX, truth)(call), True)
    tally.settle()
    found = [said.key for _, _, _, said, _, _ in tally.violations()]
    assert len(found) == 2
    assert len(set(found)) == 1
    assert found[0].detail == Stepwise(scale_cast="float16").name, "a result in float32 is rounded to it once"


def test_a_combination_of_two_mistakes_is_chosen_only_if_a_cell_shows_it() -> None:
    small, loses, both = operands_of("int8"), Stepwise(zero="unsigned"), Stepwise("ignored", zero="unsigned")
    cells = [("one", small, (IGNORES, both)), ("one", small, (loses, both))]
    assert common(cells) == [both] * 2
    assert common(cells, [(IGNORES,), (loses,)]) == [IGNORES, loses]
    assert common([*cells, ("one", small, (both,))], [(IGNORES,), (loses,), (both,)]) == [both] * 3


def departures_found(*cells: tuple[str, str, Stepwise]) -> dict[str, list[tuple[str, str]]]:
    """Tally an implementation with a recipe for each cell. Return its findings' departures by type of x.

    No due result of an integer type is -0.
    """
    edition, tally, rng = get("onednn/Dequantize-1@3.5"), Tally(), random.Random(3)
    for x_dtype, zero_point, truth in cells:
        for number in range(20):
            structure = Linear(x_dtype, "float32", "per_tensor", (90,), zero_point, seed=rng.getrandbits(32))
            judged = judge(edition, build(edition, structure), number)
            assert judged.legal is not None
            assert x_dtype.startswith("float8") or not (judged.legal.codes(0) == 1 << 31).any()
            tally.observe(judged, SUBJECT, follows(edition, truth)(judged.call), True)
    tally.settle()
    found = {}
    for _, cell, _, said, judged, _ in tally.violations():
        recipe, call = named(edition, said.key.detail), judged.call
        told = departures(recipe, edition.readings(call), edition.operands(call))
        found[cell.x_dtype] = [(each.stage, each.actual) for each in told]
    return found


CASTS = Stepwise("operands-float32", difference="float32")


def test_a_cast_of_operands_is_the_only_mistake_where_no_zero_shows_a_lost_sign() -> None:
    found = departures_found(("uint8", "int32", CASTS), ("int8", "int32", CASTS))
    assert found == {x_dtype: [("subtraction", "operands-float32")] for x_dtype in ("uint8", "int8")}


def test_two_mistakes_are_not_joined_to_one_recipe_that_no_cell_shows() -> None:
    """One recipe would explain all cells: the integers show its cast, and float8 shows its lost signs."""
    loses = Stepwise(zero="unsigned")
    found = departures_found(("uint8", "int32", CASTS), ("int8", "int32", CASTS), ("float8_e4m3fn", "", loses))
    assert found == {
        "uint8": [("subtraction", "operands-float32")],
        "int8": [("subtraction", "operands-float32")],
        "float8_e4m3fn": [("zero", "unsigned")],
    }
