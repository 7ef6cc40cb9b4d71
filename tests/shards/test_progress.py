"""One stream of events from those of several shards."""

from __future__ import annotations

from pathlib import Path

from xverify.engine.events import (
    FindingFound,
    FindingShrunk,
    Progressed,
    ShrinkStarted,
    SweepFinished,
    SweepStarted,
    WorkerReady,
)
from xverify.shards.progress import EventFile, Together, event_of, line_of


def test_every_event_survives_its_line(tmp_path):
    events = [
        SweepStarted("run", ("a", "b"), ("o",), 60.0, None),
        WorkerReady("o", "1.0"),
        Progressed("walk", 1, 2, 3, 0.5),
        FindingFound("id", "violation", "o", "a", "words"),
        FindingShrunk("id", 3, True),
    ]
    file = EventFile(tmp_path / "events.jsonl")
    for event in events:
        file(event)
    file.close()
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [event_of(line) for line in lines] == events
    assert event_of(line_of(SweepFinished(Path("x/report.json")))) is not None


def test_a_damaged_line_is_no_event():
    assert [event_of(line) for line in ("", "{", "[]", '{"event": "Other"}', '{"event": "Progressed"}')] == [None] * 5


def test_counts_are_added_up_and_names_announced_once():
    seen: list[object] = []
    started = SweepStarted("run", ("a", "b"), ("o",), None, 99)
    both = Together(started, ("1", "2"), seen.append)
    finding = FindingFound("id", "violation", "o", "a", "words")
    for key in ("1", "2"):
        both.line(key, line_of(SweepStarted(f"shard {key}", ("a",), ("o",), None, 9)))
        both.line(key, line_of(WorkerReady("o", "1.0")))
        both.line(key, line_of(finding))
    for key, cases in (("1", 10), ("2", 5), ("1", 20)):
        both.line(key, line_of(Progressed("walk", cases, 10 * cases, 1, 0.0)))
    assert seen[:3] == [started, WorkerReady("o", "1.0"), finding]
    assert [(event.cases, event.values, event.findings) for event in seen[3:] if isinstance(event, Progressed)] == [
        (10, 100, 1), (15, 150, 2), (25, 250, 2),
    ]  # fmt: skip
    both.restart("1")
    both.line("2", line_of(Progressed("walk", 6, 60, 1, 0.0)))
    both.line("2", line_of(SweepStarted("second session", ("b",), ("o",), None, 9)))
    both.line("2", line_of(Progressed("walk", 4, 40, 1, 0.0)))
    assert [event.cases for event in seen[-2:] if isinstance(event, Progressed)] == [6, 10]


def test_shrinking_begins_when_every_shard_that_lives_shrinks():
    seen: list[object] = []
    both = Together(SweepStarted("run", (), (), None, None), ("1", "2", "3"), seen.append)
    seen.clear()
    both.line("1", line_of(ShrinkStarted(2)))
    both.line("1", line_of(FindingShrunk("a", 1, True)))
    both.ended("3")
    assert seen == []
    both.line("2", line_of(ShrinkStarted(1)))
    both.line("2", line_of(FindingShrunk("b", 1, True)))
    assert seen == [ShrinkStarted(3), FindingShrunk("a", 1, True), FindingShrunk("b", 1, True)]
