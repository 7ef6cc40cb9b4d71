"""NAME[:OPTION][==VERSION | @PYTHON]: parsing, selection and messages for mistakes."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from framework_oracle import FAKE
from rich.console import Console
from sample_report import sample_report

from xverify.cli.common import say
from xverify.contracts import get
from xverify.core.errors import UnableError, UsageError
from xverify.engine import replay, select
from xverify.environments import other_versions
from xverify.environments.cache import Environment, EnvironmentFailedError
from xverify.environments.installers import Say
from xverify.environments.naming import Name, parse, same_version
from xverify.oracles import all_oracles, installed_version
from xverify.report import render
from xverify.report.console import print_summary
from xverify.verify.findings import Subject

HERE = replace(FAKE, name="here", distribution="numpy")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two implementations, of which one is installed, a kernel, and environments of 1.0, 2.0 and 3.0."""
    kernel = replace(FAKE, name="xverify-numpy", role="kernel", distribution="xverify", version="0.1")
    listed = {"fake": FAKE, "here": HERE, "xverify-numpy": kernel}
    monkeypatch.setattr(select, "all_oracles", lambda: listed)
    monkeypatch.setattr(replay, "all_oracles", lambda: listed)

    def environment(distribution: str, version: str, say: Say, needs: object) -> Environment:
        if version not in ("1.0", "2.0", "3.0"):
            raise EnvironmentFailedError(f"{distribution} {version} is not offered")
        say(f"{distribution} {version}: being made")
        return Environment(f"/environments/{version}/python", version, distribution)

    monkeypatch.setattr(other_versions, "environment", environment)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", Name("a")),
        ("a-b:C", Name("a-b", "C")),
        ("a==1.17.0", Name("a", "", "1.17.0")),
        ("a==newest", Name("a", "", "newest")),
        ("a:C==1!2.0rc1+cu12", Name("a", "C", "1!2.0rc1+cu12")),
        ("a@/x/y==2/python", Name("a", "", "", "/x/y==2/python")),
        ("a:/lib/libdnnl.so.3", Name("a", "/lib/libdnnl.so.3")),
        ("a:/lib/b:c.so@../python", Name("a", "/lib/b:c.so", "", "../python")),
        ("a:EP=/lib/b=c.so==1.0", Name("a", "EP=/lib/b=c.so", "1.0")),
    ],
)
def test_the_parts_of_a_name(text: str, parts: Name) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a part of it is empty"),
        ("==1.0", "a part of it is empty"),
        ("a:", "a part of it is empty"),
        ("a:==1.0", "a part of it is empty"),
        ("a==", "a part of it is empty"),
        ("a@", "a part of it is empty"),
        ("a==1.0@/python", "names a version and a Python"),
        ("a==new", "'new' in 'a==new' is not a version; one is written a==1.17.0"),
        ("a==1.0==2.0", "is not a version"),
    ],
)
def test_the_message_for_an_unknown_name(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        select.oracle_named(text)
    assert complaint in str(caught.value)


def test_versions_of_one_implementation_have_its_name_in_common() -> None:
    assert same_version("1.17", "1.17.0")
    assert same_version("of its own", "of its own")
    assert not same_version("1.17", "1.17.1")
    assert not same_version("1.17", "not installed")


def test_an_option_makes_another_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert select.oracle_named("here:fast").name == "here:fast"
    with pytest.raises(UsageError, match="fake knows the option fast, not 'slow'"):
        select.oracle_named("here:slow")
    monkeypatch.setattr(select, "all_oracles", lambda: {"here": replace(HERE, module="xverify.oracles.onnx_model")})
    with pytest.raises(UsageError, match="here takes no option, so 'fast' means nothing"):
        select.oracle_named("here:fast")


def test_a_version_runs_in_an_environment_unless_it_is_installed() -> None:
    mine = installed_version(HERE)
    assert mine is not None
    assert select.oracle_named(f"here=={mine}") == HERE
    other = select.oracle_named("here:fast==2.0")
    assert (other.name, other.version, other.python) == ("here:fast==2.0", "2.0", "/environments/2.0/python")
    assert installed_version(other) == "2.0"
    with pytest.raises(EnvironmentFailedError, match=r"^numpy 9\.9 is not offered$"):
        select.oracle_named("here==9.9")
    with pytest.raises(UsageError, match="fake cannot be run: xverify-fake-framework is not installed"):
        select.oracle_named("fake")
    assert select.oracle_named("fake==2.0").version == "2.0", "it need not be installed here"


def test_a_version_may_be_offered_under_another_name() -> None:
    def environment(distribution: str, version: str, say: object, needs: object) -> Environment:
        if distribution == "numpy":
            raise EnvironmentFailedError("numpy has it not")
        return Environment("/python", version, distribution)

    oracle = replace(HERE, distributions=("numpy-again",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other_versions, "environment", environment)
        moved, _ = other_versions.of_version(oracle, "7.0", print)
    assert (moved.name, moved.distribution) == ("here==7.0", "numpy-again")


def test_own_kernels_have_no_other_version() -> None:
    with pytest.raises(EnvironmentFailedError, match="xverify-numpy is part of xverify, and runs at its version only"):
        select.oracle_named("xverify-numpy==9.9")


def test_several_versions_and_a_sentence_for_each_unavailable_one() -> None:
    names = ["here==1.0", "here==2.0", "here", "here==7.0", "here==2.0"]
    chosen, sentences = select.oracles_named(names, None)
    assert [oracle.name for oracle in chosen] == ["xverify-numpy", "here==1.0", "here==2.0", "here"]
    assert sentences == ("here==7.0 is left out: numpy 7.0 is not offered",)
    with pytest.raises(EnvironmentFailedError, match=r"here==7\.0 is left out: .*; here==8\.0 is left out"):
        select.oracles_named(["here==7.0", "here==8.0"], None)


def test_the_message_on_editions_names_requested_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shipping = replace(HERE, judged_by=("ai.onnx/*",))
    monkeypatch.setattr(select, "all_oracles", lambda: {"xverify-numpy": HERE, "here": shipping})
    monkeypatch.setattr(select, "kernel_named", lambda target: HERE)
    monkeypatch.setattr(other_versions.contracts, "carried", lambda identity, *_: identity.endswith("-10"))
    ten, nineteen = get("ai.onnx/DequantizeLinear-10"), get("ai.onnx/DequantizeLinear-19")
    chosen, sentences = select.oracles_named(["here==1.0"], None, held_to=[ten])
    assert sentences == ()
    assert chosen[1].judged_by == (ten.id,)
    _, sentences = select.oracles_named(["here==1.0"], None, held_to=[ten, nineteen])
    assert len(sentences) == 1
    assert sentences[0].startswith(f"here==1.0 is not judged by {nineteen.id}: ")


def test_a_version_of_a_package_without_texts_is_judged_by_what_it_claims() -> None:
    claims = replace(HERE, judged_by=("ai.onnx/*",), carries_texts=False)
    assert other_versions._judged_there(claims) == (claims, {})


@pytest.mark.parametrize(("instructions", "added"), [({"avx2"}, False), ({"avx2", "avx512f"}, True)])
def test_tensorflows_own_kernels_are_asked_where_it_would_take_onednns(instructions: set[str], added: bool) -> None:
    asked = select.by_default(all_oracles().values(), instructions)
    assert ("tensorflow-own-kernels" in asked) is added
    assert {"tensorflow", "onnxruntime"} <= set(asked)
    assert "xverify-numpy" not in asked


def test_a_replay_makes_a_version_but_runs_no_path_that_only_a_report_names(tmp_path) -> None:
    with replay.asking(tmp_path) as ask:
        for name in ("here@/python", "here:fast", "here:/lib.so==2.0"):
            with pytest.raises(UnableError, match=f"{name} is run only when it is named: add --oracle {name}"):
                ask(Subject(name, "1.0", "oracle"), None)
        with pytest.raises(UnableError, match="no implementation is called 'nowhere' here"):
            ask(Subject("nowhere", "1.0", "oracle"), None)
        with pytest.raises(UnableError, match="no implementation is called 'a==b==c' here"):
            ask(Subject("a==b==c", "1.0", "oracle"), None)


@pytest.mark.parametrize("kind", ["html", "markdown", "terminal"])
def test_every_format_shows_versions_that_were_left_out(kind: str) -> None:
    report = sample_report()
    report["run"]["left_out"] = ["here==7.0 is left out: numpy 7.0 is not offered"]
    if kind == "terminal":
        console = Console(record=True, width=100, file=io.StringIO())
        print_summary(report, console)
        shown = console.export_text()
    else:
        shown = render(report, kind)
    assert "numpy 7.0 is not offered" in shown


def test_progress_of_an_installation_goes_to_stderr_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    select.oracle_named("here==2.0", say)
    assert capsys.readouterr() == ("", "xverify: numpy 2.0: being made\n")


def test_the_newest_release_runs_and_else_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(distribution: str) -> list[str]:
        if distribution == HERE.distribution:
            raise EnvironmentFailedError("the index cannot be reached")
        return ["1.0", "2.0"]

    monkeypatch.setattr(other_versions, "versions_offered", offered)
    chosen, sentences = select.oracles_named((), None, newest=True)
    assert [oracle.name for oracle in chosen] == ["xverify-numpy", "fake==2.0", "here"]
    (sentence,) = [sentence for sentence in sentences if sentence.startswith("here")]
    assert "the index cannot be reached" in sentence
    assert select.oracle_named("fake==newest").version == "2.0"
    with pytest.raises(EnvironmentFailedError, match="is part of xverify"):
        select.oracle_named("xverify-numpy==newest")


def test_a_newest_release_that_cannot_be_installed_gives_way_to_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_versions, "versions_offered", lambda distribution: ["1.0", "2.0", "4.0"])
    chosen, sentences = select.oracles_named((), None, newest=True)
    assert "fake==2.0" in [oracle.name for oracle in chosen]
    assert "fake runs at 2.0, not at 4.0: xverify-fake-framework 4.0 is not offered" in sentences
