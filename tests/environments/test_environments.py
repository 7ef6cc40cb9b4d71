"""Environments of other versions: made once and reused, and a clear error if one cannot be made."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from folders import SUPPORT
from framework_oracle import FAKE
from package_index import FRAMEWORK, package_index

from xverify import contracts
from xverify.contracts import documents
from xverify.core.call import Call, Tensor, encode_call
from xverify.core.errors import DocumentError
from xverify.engine import select
from xverify.environments import cache, installers, other_versions
from xverify.environments.cache import EnvironmentFailedError, environment, versions_offered
from xverify.environments.installers import Interpreter, Offer
from xverify.oracles import all_oracles
from xverify.workers.worker import Worker

ME = Interpreter(sys.executable, f"{sys.version_info[0]}.{sys.version_info[1]}")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package_index(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def alone(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, a directory of wheels as the index, this Python only, and pip."""
    for variable, value in {
        "XVERIFY_CACHE": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(installers, "interpreters", lambda: (ME,))
    monkeypatch.setattr(installers, "uv_command", tuple)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace installation by a list of what would be installed."""
    done: list[str] = []

    def create(which: Interpreter, place: Path) -> None:
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python").symlink_to(sys.executable)
        done.append(f"create with {which.version}")

    offer = Offer(frozenset(map(installers.Version, ("1.5", "2.0", "2.1rc1"))))
    monkeypatch.setattr(installers, "offered", lambda distribution, which: offer)
    monkeypatch.setattr(installers, "create", create)
    monkeypatch.setattr(installers, "install", lambda place, which, wanted: done.append(" ".join(wanted)))
    monkeypatch.setattr(installers, "imported", lambda python, distribution: ({"version": "2.0"}, ""))
    return done


def left_behind() -> list[str]:
    """Return the files in the cache except locks."""
    return sorted(path.name for path in cache.directory().glob("*") if path.suffix != ".lock")


# -- made by pip --------------------------------------------------------------------------------------


def test_another_version_is_installed_once_with_a_numpy_that_fits_and_answers_calls(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "all_oracles", lambda: {"fake": FAKE})
    oracle = select.oracle_named("fake==1.5", said.append)
    assert (oracle.name, oracle.version) == ("fake==1.5", "1.5")
    assert "making its environment" in said[0]
    assert "made" in said[-1]
    assert left_behind() == [f"{FRAMEWORK}-1.5"]
    mark = json.loads(Path(oracle.python).parents[1].joinpath("environment.json").read_text())
    assert mark["numpy"] == np.__version__, "what is imported is the NumPy of this Python"
    worker = Worker(oracle, tmp_path / "workers")
    worker.start()
    try:
        outcome = worker.ask(encode_call(Call("fake/Multiply-1", {"x": Tensor("uint8", np.array([1, 7], np.uint8))})))
        assert outcome.tensor is not None, outcome
        assert outcome.tensor.codes.tolist() == [3, 21], "the factor of release 1.5"
        assert worker.versions["version"] == "1.5"
    finally:
        worker.stop()
    said.clear()
    assert select.oracle_named("fake==1.5.0", said.append).python == oracle.python, "1.5.0 is 1.5"
    assert said == []
    assert [(one.distribution, one.version) for one in cache.cached()] == [(FRAMEWORK, "1.5")]


def test_a_package_that_does_not_import_leaves_no_environment(said: list[str]) -> None:
    with pytest.raises(EnvironmentFailedError) as caught:
        environment(FRAMEWORK, "3.0", said.append)
    assert str(caught.value) == (
        f"{FRAMEWORK} 3.0 was installed for Python {ME.version}, but does not import: "
        "ImportError: libframework.so.3 is missing"
    )
    assert left_behind() == []


def test_versions_are_offered_oldest_first_without_those_before_a_release() -> None:
    assert versions_offered(FRAMEWORK) == ["1.5", "2.0", "3.0"]
    assert versions_offered(FRAMEWORK, sys.executable) == ["1.5", "2.0", "3.0"]


def test_the_message_for_a_version_that_the_index_lacks(said: list[str]) -> None:
    with pytest.raises(EnvironmentFailedError) as caught:
        environment(FRAMEWORK, "2.7", said.append)
    assert str(caught.value) == (
        f"{FRAMEWORK} 2.7 is not offered for Python {ME.version}; what is offered goes from 1.5 to 3.0, "
        "nearest: 1.5, 2.0, 2.1rc1"
    )
    with pytest.raises(EnvironmentFailedError, match=r"offers no no-such-thing for Python .*No matching distribution"):
        versions_offered("no-such-thing")
    assert said == [], "nothing is announced that is not begun"


def test_the_message_for_an_unreachable_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")
    with pytest.raises(EnvironmentFailedError, match="or cannot be reached: the connection to it fails"):
        versions_offered(FRAMEWORK)


# -- the cache ----------------------------------------------------------------------------------------


def test_an_environment_is_made_once_and_extended_for_more_packages(quick: list[str], said: list[str]) -> None:
    first = environment("Fake_Framework", "2.0", said.append)
    assert environment("fake-framework", "2.0", said.append) == replace(first, distribution="Fake_Framework")
    assert quick == [f"create with {ME.version}", "Fake_Framework==2.0 numpy ml_dtypes"]
    environment("fake-framework", "2.0", said.append, ["onnx"])
    assert quick[-1] == "fake-framework==2.0 numpy ml_dtypes onnx"
    assert left_behind() == ["fake-framework-2"]


def test_a_release_from_before_numpy_2_gets_an_older_numpy_even_if_it_was_cached_without(
    quick: list[str], said: list[str]
) -> None:
    oracle = replace(FAKE, distribution="fake", numpy_2_from="2.0")
    for version in ("1.5", "2.0"):
        environment("fake", version, said.append)
        other_versions.of_version(oracle, version, said.append)
    installed = [line for line in quick if "==" in line]
    assert installed == ["fake==1.5 numpy ml_dtypes", "fake==1.5 numpy ml_dtypes numpy<2", "fake==2.0 numpy ml_dtypes"]


def test_an_unfinished_environment_is_made_anew(quick: list[str], said: list[str]) -> None:
    half = cache.directory() / ".fake-2.partial"
    (half / "bin").mkdir(parents=True)
    (half / "bin" / "python").write_text("garbage")
    place = cache.directory() / "fake-2"
    place.mkdir()
    (place / "environment.json").write_text('{"wanted": ')
    made = environment("fake", "2.0", said.append)
    assert Path(made.python).resolve() == Path(sys.executable).resolve()
    assert left_behind() == ["fake-2"]


def test_an_environment_without_its_python_is_made_anew(quick: list[str], said: list[str]) -> None:
    python = Path(environment("fake", "2.0", said.append).python)
    python.unlink()
    python.symlink_to("/no/such/python")
    environment("fake", "2.0", said.append)
    assert len(quick) == 4
    assert os.access(python, os.X_OK)


@pytest.mark.parametrize("part", ["create", "install"])
def test_an_interrupted_installation_leaves_nothing(
    part: str, quick: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(installers, part, fail)
    with pytest.raises(KeyboardInterrupt):
        environment("fake", "2.0", said.append)
    assert left_behind() == []


def test_two_at_once_make_one(quick: list[str], said: list[str]) -> None:
    cache.directory().mkdir(parents=True)
    with open(cache.directory() / ".fake-2.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=environment, args=("fake", "2.0", said.append))
        other.start()
        until = time.monotonic() + 20
        while not said and time.monotonic() < until:
            time.sleep(0.01)
        assert said == ["fake-2: waiting for another process that makes its environment"]
        assert quick == []
    other.join(20)
    assert len(quick) == 2


def test_the_message_for_an_unwritable_cache(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XVERIFY_CACHE", "/proc/nowhere")
    with pytest.raises(EnvironmentFailedError, match=r"cannot be made in /proc/nowhere/environments: "):
        environment("fake", "2.0", said.append)


def test_the_folder_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cached() == []
    monkeypatch.delenv("XVERIFY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(cache.directory()) == "/somewhere/xverify/environments"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == Path.home() / ".cache" / "xverify" / "environments"


# -- Pythons ------------------------------------------------------------------------------------------


def test_the_first_python_that_has_a_wheel_is_taken(
    quick: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [Interpreter("/a", "3.11"), Interpreter("/b", "3.10"), Interpreter("/c", "3.8"), Interpreter("/d", "3.7")]
    known = {"/a": ["3.0"], "/b": [], "/c": ["2.0", "3.0"], "/d": ["2.0"]}
    asked: list[str] = []

    def offered(distribution: str, which: Interpreter) -> Offer:
        asked.append(which.path)
        return Offer(frozenset(map(installers.Version, known[which.path])), "" if known[which.path] else "nothing")

    monkeypatch.setattr(installers, "interpreters", lambda: tuple(every))
    monkeypatch.setattr(installers, "offered", offered)
    environment("fake", "2.0", said.append)
    assert quick[0] == "create with 3.8"
    asked.clear()
    environment("fake", "3.0", said.append)
    assert asked == ["/a"], "no other Python is asked when this one has a wheel"
    assert "Python 3.8" in said[0]
    assert versions_offered("fake") == ["2.0", "3.0"]
    with pytest.raises(EnvironmentFailedError, match=r"fake 9 is not offered for Python 3.11, 3.10, 3.8, 3.7"):
        environment("fake", "9", said.append)


def test_pythons_of_this_machine_are_found_this_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = installers.interpreters()
    assert found[0] == ME
    versions = [installers.Version(one.version) for one in found[1:]]
    assert versions == sorted(set(versions) - {installers.Version(ME.version)}, reverse=True)
    for one in found[1:]:
        assert installers.interpreter(one.path) == one


def test_the_message_for_an_unusable_python(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailedError, match="/no/python cannot run a worker: /no/python: No such file"):
        other_versions.of_python(FAKE, "/no/python")
    with pytest.raises(EnvironmentFailedError, match=f"has no {FRAMEWORK}; install it there"):
        other_versions.of_python(FAKE, sys.executable)
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho exit 3 >&2; exit 3\n")
    script.chmod(0o755)
    with pytest.raises(EnvironmentFailedError, match="does not run as a Python: exit 3"):
        installers.interpreter(str(script))


def test_a_command_past_its_time_ends_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    started = time.monotonic()
    done = installers.run(["sh", "-c", f"sleep 100 & echo $! > {mark}; wait"], 0.5)
    assert done.returncode == 124
    assert done.stderr == "no answer within 0.5 s"
    assert time.monotonic() - started < 20
    pid = int(mark.read_text())
    until = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def others() -> Iterator[str]:
    """Other Pythons of this machine that have NumPy, of another minor version or with another NumPy."""
    mine = (ME.version, np.__version__)
    known = [one.path for one in installers.interpreters()[1:]] + [one.python for one in cache.cached()]
    seen = {mine}
    for python in [*known, *filter(None, os.environ.get("XVERIFY_PYTHONS", "").split(os.pathsep))]:
        code = "import sys, numpy; print('%d.%d' % sys.version_info[:2], numpy.__version__)"
        done = installers.run([python, "-c", code], 60)
        if done.returncode == 0 and tuple(done.stdout.split()) not in seen:
            seen.add(tuple(done.stdout.split()))
            yield python


def test_a_worker_answers_under_every_python_and_numpy_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    pythons = list(others())
    if not pythons:
        pytest.skip("this machine has no other Python with NumPy; name some in XVERIFY_PYTHONS")
    here = SUPPORT
    for python in pythons:
        oracle = replace(FAKE, module="fake_oracles", distribution="numpy", search_path=(str(here),), python=python)
        worker = Worker(oracle, tmp_path)
        worker.start()
        try:
            for do, kind in (
                ("", "tensor"),
                ("refuse", "rejected"),
                ("abort", "crash"),
                ("unsupported", "unsupported"),
            ):
                for layout in ("C", "F", "reversed", "strided", "misaligned", "broadcast", "read-only", "offset"):
                    if do and layout != "C":
                        continue
                    x = Tensor("int16", np.arange(12, dtype=np.uint16).reshape(3, 4), layout)
                    call = Call("fake/Double-1", {"x": x}, {"do": do} if do else {})
                    outcome = worker.ask(encode_call(call))
                    assert outcome.kind == kind, (python, do, layout, outcome.message)
                    if outcome.tensor is not None:
                        assert np.array_equal(outcome.tensor.codes, 2 * x.codes), (python, layout)
            assert worker.versions["executable"] == python
        finally:
            worker.stop()


# -- who judges it ------------------------------------------------------------------------------------


def test_another_python_is_judged_by_the_editions_of_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = documents.schemas("onnxruntime")
    key = ("com.microsoft", "DequantizeLinear", 1)
    theirs = {
        ("", "DequantizeLinear", 10): ours["", "DequantizeLinear", 10],
        key: replace(ours[key], doc="y = x * scale"),
    }
    real = documents.schemas

    def schemas(package: str, python: str = sys.executable) -> object:
        return theirs if python == "/other" else real(package, python)

    for family in (contracts.onnx, contracts.microsoft):
        monkeypatch.setattr(family, "schemas", schemas)
    monkeypatch.setattr(installers, "version_in", lambda python, distributions: "1.2.3")
    moved, reasons = other_versions.of_python(all_oracles()["onnxruntime"], "/other")
    assert moved.name == "onnxruntime@/other"
    assert moved.version == "1.2.3"
    assert moved.judged_by == ("ai.onnx/DequantizeLinear-10",)
    installed = "com.microsoft/DequantizeLinear-1@installed"
    assert installed in reasons
    assert "ai.onnx/DequantizeLinear-13" in reasons
    assert other_versions.not_judged(moved, reasons, {installed, "ai.onnx/DequantizeLinear-10"}) == (
        f"onnxruntime@/other is not judged by {installed}: its own package carries no such text, or another; "
        "what it gives there is compared and characterised",
    )
    theirs[key] = ours[key]
    assert installed in other_versions.of_python(all_oracles()["onnxruntime"], "/other")[0].judged_by


def test_the_same_package_elsewhere_is_judged_by_the_same_texts(tmp_path: Path) -> None:
    link = tmp_path / "environment" / "bin"
    link.mkdir(parents=True)
    python = link / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for name in ("onnxruntime", "tensorflow", "onnx-reference"):
        oracle = all_oracles()[name]
        moved, reasons = other_versions.of_python(oracle, str(link.parent))
        assert moved.python == str(python), "a directory is a virtual environment"
        shipped = {i for i in contracts.ids() if any(other_versions.fnmatchcase(i, one) for one in oracle.judged_by)}
        # An onnxruntime may be older than the newest edition of onnx.
        lacking = {i for i in shipped if not contracts.carried(i, oracle.distribution, sys.executable)}
        assert set(reasons) == lacking
        assert set(moved.judged_by) == shipped - lacking


def test_an_onnxruntime_that_hides_its_schemas_has_the_editions_of_its_opsets(monkeypatch: pytest.MonkeyPatch) -> None:
    def schemas(package: str, python: str) -> object:
        raise DocumentError("it does not say")

    assert documents.newest_opset(sys.executable) >= 25
    monkeypatch.setattr(contracts.onnx, "schemas", schemas)
    monkeypatch.setattr(contracts.onnx, "newest_opset", lambda python: 20)
    known = [i for i in contracts.ids() if i.startswith("ai.onnx/") and contracts.carried(i, "onnxruntime", "/other")]
    assert known == [f"ai.onnx/DequantizeLinear-{version}" for version in (10, 13, 19)]
    with pytest.raises(DocumentError):
        contracts.carried("ai.onnx/DequantizeLinear-10", "onnx", "/other")
