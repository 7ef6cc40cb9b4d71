"""Present, absent or unknown, and the comparison of runs."""

from __future__ import annotations

from xverify.history.presence import CauseHistory, Observation, Sight, compare
from xverify.report.presence import Square, State, Strip


def cause(*observations: Observation, name: str = "cause-0000000000", severity: str = "wrong") -> CauseHistory:
    sights = {seen.run: Sight(severity, f"it is {name}", "", "") for seen in observations if seen.calls}
    return CauseHistory(name, "values", False, sights, observations)


def seen(run: int, calls: int, tested: int, version: str = "1.0", plan: str = "") -> Observation:
    return Observation(run, "onnxruntime", version, calls, tested, plan=plan)


def test_a_cause_is_absent_only_where_enough_calls_could_show_it() -> None:
    one_in_ten = cause(seen(1, 10, 100), seen(2, 0, 30), seen(3, 0, 29), seen(4, 0, 0))
    assert [one_in_ten.state_in(run) for run in (1, 2, 3, 4, 5)] == ["present", "absent", *["unknown"] * 3]


def test_runs_of_one_version_count_together() -> None:
    (strip,) = cause(
        seen(1, 10, 100), seen(2, 0, 15, "2.0"), seen(3, 0, 15, "2.0"), seen(4, 0, 15, "10.0")
    ).over_versions()
    assert [(square.label, square.state) for square in strip.squares] == [
        ("1.0", "present"),
        ("2.0", "absent"),
        ("10.0", "unknown"),
    ]
    assert (strip.marks, strip.since) == ("#.?", "gone since 2.0")


def test_the_same_plan_makes_the_same_calls() -> None:
    rare = cause(seen(1, 1, 100, plan="0/500"), seen(2, 0, 100, plan="0/500"), seen(3, 0, 100, plan="1/500"))
    assert [rare.state_in(run) for run in (1, 2, 3)] == ["present", "absent", "unknown"]


def test_a_strip_says_since_when() -> None:
    def since(marks: str) -> str:
        states = {state.mark: state for state in State}
        return Strip("x", tuple(Square(str(n), states[mark], 0, 0) for n, mark in enumerate(marks))).since

    assert [since(marks) for marks in ("?#?#", ".?#", "#..", "#.#.", "#.?#", "..", "?")] == [
        "since 1 or before",
        "since 2",
        "gone since 1",
        "gone since 3",
        "since 3",
        "",
        "",
    ]


def test_runs_differ_in_what_is_new_gone_unknown_and_worse() -> None:
    worse = cause(seen(1, 5, 10), seen(2, 5, 10), name="worse")
    worse = CauseHistory(
        worse.id, worse.kind, False, {**worse.sights, 2: Sight("ends-process", "", "", "")}, worse.observations
    )
    causes = [
        cause(seen(1, 0, 100), seen(2, 5, 10), name="new"),
        cause(seen(1, 0, 2), seen(2, 5, 10), name="unseen"),
        cause(seen(1, 5, 10), seen(2, 0, 100), name="gone"),
        cause(seen(1, 5, 10), seen(2, 0, 2), name="uncovered"),
        cause(seen(1, 5, 10), name="of another implementation"),
        cause(seen(1, 5, 10), seen(2, 5, 10), name="same"),
        worse,
    ]
    compared = compare(causes, 2, [1], {1: "a", 2: "b"})
    parts = (compared.new, compared.unseen, compared.gone, compared.uncovered, compared.changed)
    assert [[change.cause for change in part] for part in parts] == [
        ["new"],
        ["unseen"],
        ["gone"],
        ["uncovered"],
        ["worse"],
    ]
    assert (compared.same, compared.left_out, compared.has_new) == (1, 1, True)
    assert (compared.changed[0].before, compared.changed[0].severity) == ("wrong", "ends-process")


def test_a_run_that_says_nothing_is_passed_over_and_a_regression_is_new() -> None:
    steady = cause(seen(1, 5, 10), seen(2, 0, 2), seen(3, 5, 10))
    returns = cause(seen(1, 5, 10), seen(2, 0, 100), seen(3, 5, 10))
    labels = {1: "a", 2: "b", 3: "c"}
    assert not compare([steady], 3, [1, 2], labels).has_new
    assert [change.cause for change in compare([returns], 3, [1, 2], labels).new] == [returns.id]
