"""The journal of answers: what is recorded is given once, in order, and never asked for again."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from doubled_calls import FAKE, is_double, request

from xverify.core.call import Outcome, decode_call, decode_outcome, encode_outcome
from xverify.core.errors import DamagedFileError, NoSpaceError
from xverify.workers import journal as journals
from xverify.workers.journal import Journal, Request, WorkerJournal
from xverify.workers.process import Limits
from xverify.workers.worker import Worker


def kept(path: Path, *messages: list[int], worker: str = "fake") -> Path:
    """A journal with these messages: the answer to call n is refused with the message n."""
    journal = Journal(path, "run")
    for values in messages:
        journal.of(worker).keep([_request(value) for value in values], 0.5, forked=False)
    journal.close()
    return path


def _request(value: int, message: str = "") -> Request:
    return Request(b"call %d" % value, "path", encode_outcome(Outcome("rejected", message=message or str(value))))


def taken(worker: WorkerJournal, value: int) -> str | None:
    recorded = worker.take(b"call %d" % value, "path")
    return None if recorded is None else decode_outcome(recorded.outcome).message


def test_answers_are_given_once_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, "run")
    fake, other = journal.of("fake"), journal.of("fake", "confirming")
    fake.keep([_request(1, "first"), _request(2)], 0.5, forked=True)
    other.keep([_request(1, "other")], 0.25, forked=False)
    fake.keep([_request(1, "second")], 0.0, forked=True)
    journal.close()
    journal = Journal(path, "run")
    fake, other = journal.of("fake"), journal.of("fake", "confirming")
    assert journal.left == 4
    assert fake.take(b"call 1", "another path") is None
    recorded = fake.take(b"call 1", "path")
    assert recorded is not None
    assert (recorded.seconds, recorded.slowest, recorded.forked, recorded.death) == (0.5, 0.5, True, False)
    assert [taken(fake, 1), taken(fake, 1), taken(fake, 2)] == ["second", None, "2"]
    assert taken(other, 1) == "other"
    assert journal.left == 0


def test_a_damaged_tail_is_cut_off(tmp_path: Path) -> None:
    path = kept(tmp_path / "journal", [1, 2])
    whole = path.read_bytes()
    kept(path, [3])
    longer = path.read_bytes()
    damaged = [longer[:end] for end in range(len(whole), len(longer))]
    damaged += [longer[:at] + bytes([longer[at] ^ 16]) + longer[at + 1 :] for at in range(len(whole), len(longer), 7)]
    for content in damaged:
        path.write_bytes(content)
        journal = Journal(path, "run")
        assert [taken(journal.of("fake"), value) for value in (1, 2, 3)] == ["1", "2", None]
        assert path.read_bytes() == whole
        journal.close()
    kept(path, [3])
    assert path.read_bytes()[: len(whole)] == whole
    assert taken(Journal(path, "run").of("fake"), 3) == "3"


def test_the_journal_of_another_run_is_refused_and_one_without_a_beginning_starts_again(tmp_path: Path) -> None:
    path = kept(tmp_path / "journal", [1])
    with pytest.raises(DamagedFileError, match="another run"):
        Journal(path, "another")
    path.write_bytes(b"\0" + path.read_bytes()[1:])
    assert Journal(path, "another").left == 0


def test_large_answers_come_back_whole(tmp_path: Path) -> None:
    outcomes = [bytes(1 << 20), bytes(range(256)) * 100, b""]
    journal = Journal(tmp_path / "journal", "run")
    journal.of("fake").keep([Request(bytes(1 << 17), str(i), outcome) for i, outcome in enumerate(outcomes)], 0, False)
    journal.close()
    assert (tmp_path / "journal").stat().st_size < 10_000, "it is compressed"
    worker = Journal(tmp_path / "journal", "run").of("fake")
    recorded = [worker.take(bytes(1 << 17), str(i)) for i in range(3)]
    assert [entry and entry.outcome for entry in recorded] == outcomes


def test_a_full_disk_ends_every_later_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path / "journal", [1])
    journal, left = Journal(path, "run"), 20

    def write(data: memoryview) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = min(left, 7, len(data))
        left -= written
        return journal._file.write(data[:written]) or 0

    monkeypatch.setattr(journal, "_write", write)
    with pytest.raises(NoSpaceError, match="no space left on the disk of"):
        journal.of("fake").keep([_request(2)], 0.0, forked=False)
    left = 1000
    for attempt in (journal.check, lambda: journal.of("fake").keep([_request(2)], 0.0, forked=False)):
        with pytest.raises(NoSpaceError):
            attempt()
    journal.close()
    journal = Journal(path, "run")
    assert [taken(journal.of("fake"), value) for value in (1, 2)] == ["1", None]


def test_a_death_on_a_full_disk_is_no_fault_of_the_implementation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal", "run")
    worker = journal.of("fake")
    with pytest.raises(NoSpaceError):
        worker.refuse_if_full("OSError: [Errno 28] No space left on device")
    monkeypatch.setattr(journals, "LEAST_FREE", 1 << 62)
    with pytest.raises(NoSpaceError):
        Journal(tmp_path / "journal", "run").of("fake").refuse_if_full("SIGBUS")


def test_the_time_of_a_resumed_run_follows_the_answers_and_not_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    path = tmp_path / "journal"
    journal = Journal(path, "run")
    now += 7
    journal.of("fake").keep([_request(1)], 0.0, forked=False)
    now += 2
    journal.of("fake").keep([_request(2)], 0.0, forked=False)
    assert journal.elapsed() == 9
    journal.close()
    monkeypatch.setattr(time, "time", lambda: -1e9)
    now = 5000.0
    journal = Journal(path, "run")
    worker, times = journal.of("fake"), [journal.elapsed()]
    for value in (1, 3, 2):  # the call 3 was not answered before
        now += 1
        worker.take(b"call %d" % value, "path")
        times.append(journal.elapsed())
    now += 1
    assert [*times, journal.elapsed()] == [0, 7, 7, 9, 10]


@pytest.mark.parametrize("do", ["", "slow"])
def test_a_worker_takes_recorded_answers_and_asks_for_the_rest(tmp_path: Path, do: str) -> None:
    """Deaths spare the same calls as before, and no answered call is made again."""

    def answered(upto: int) -> tuple[list[str], Worker]:
        journal = Journal(tmp_path / "journal", "run")
        worker = Worker(
            FAKE,
            tmp_path,
            limits=Limits(0.5),
            likeness=lambda blob: decode_call(blob).data.shape,
            journal=journal.of("fake"),
        )
        worker.start()
        try:
            deaths = {5: "abort", 8: "hang"}
            calls = [request(i, deaths.get(i, do), size=2 if i in (7, 8) else 3) for i in range(10)]
            worker.submit(calls[:upto])
            worker.submit(calls[3:4])  # the same call again
            outcomes = [*worker.collect(30), *worker.collect(30)]
            assert all(
                is_double(o, i, o.tensor.codes.size) for i, o in enumerate(outcomes[:upto]) if o.tensor is not None
            )
            return [outcome.kind for outcome in outcomes], worker
        finally:
            worker.stop()
            journal.close()

    first, _ = answered(6)
    whole = [*["tensor"] * 5, "crash", "spared", "tensor", "hang", "spared", "spared"]
    assert first == [*whole[:6], "spared"]
    second, worker = answered(10)
    assert (second, worker.calls, worker.restarts) == (whole, 6, 2)
    size = (tmp_path / "journal").stat().st_size
    third, again = answered(10)
    assert (third, again.calls, again.restarts, again.slowest) == (whole, 6, 2, worker.slowest)
    assert not again.versions, "its process answered nothing, and was not even waited for"
    assert (tmp_path / "journal").stat().st_size == size
