"""The gate inside a test suite: Hypothesis's draws with the suite's settings, and its database."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import Phase, settings
from suite_kernels import EDITION, NARROW, kept, profile, remembering, sound, wrong_at

from xverify.core.line import call_from_line
from xverify.testing import KernelError, verify_kernel


@pytest.fixture(scope="module")
def failed() -> dict[bytes, set[bytes]]:
    """The examples that a failing run leaves in the database."""
    suite = remembering()
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    return suite.database.data


@pytest.fixture
def suite(failed) -> settings:
    """Settings whose database has the examples of a failing run."""
    left = remembering()
    left.database.data.update({key: set(lines) for key, lines in failed.items()})
    return left


def test_what_the_walk_does_not_meet_hypothesis_draws():
    met: set[tuple[int, ...]] = set()

    def recording(x, scale, zero_point=None, **attributes):
        met.add(x.shape)
        return sound(x, scale, zero_point, **attributes)

    def wrong_elsewhere(x, scale, zero_point=None, **attributes):
        result = np.array(sound(x, scale, zero_point, **attributes))
        return result if x.shape in met else result + 77

    verify_kernel(recording, EDITION, settings=profile(phases=[Phase.explicit, Phase.reuse]), **NARROW)
    verify_kernel(wrong_elsewhere, EDITION, settings=profile(phases=[Phase.explicit, Phase.reuse]), **NARROW)
    with pytest.raises(KernelError) as caught:
        verify_kernel(wrong_elsewhere, EDITION, settings=profile(max_examples=100), **NARROW)
    assert {call_from_line(finding["line"]).data.shape in met for finding in caught.value.findings} == {False}


def test_a_kernel_that_is_right_when_asked_again_does_not_pass():
    met, wrong = set(), []

    def kernel(x, scale, zero_point=None, **attributes):
        result = np.array(sound(x, scale, zero_point, **attributes))
        if wrong and x.shape not in met and result.size and len(wrong) < 3:  # xverify makes each such call twice
            wrong.append(x.shape)
            return result + 77
        met.add(x.shape)
        return result

    verify_kernel(kernel, EDITION, settings=profile(phases=[Phase.reuse]), **NARROW)
    wrong.append(())
    with pytest.raises(KernelError, match="not deterministic"):
        verify_kernel(kernel, EDITION, settings=profile(max_examples=100), **NARROW)


def test_the_number_of_examples_is_that_of_the_suite():
    numbers = []
    for most in (1, 150):
        counted = []
        verify_kernel(wrong_at(-1, counted), EDITION, settings=profile(max_examples=most), **NARROW)
        numbers.append(len(counted))
    assert 150 <= numbers[1] - numbers[0] <= 320  # xverify makes each such call twice


def test_a_second_run_fails_at_once_on_what_was_saved(suite):
    counted = []
    (line,) = kept(suite)
    start = time.monotonic()
    with pytest.raises(KernelError) as caught:
        verify_kernel(wrong_at(128, counted), EDITION, settings=suite, **NARROW)
    assert time.monotonic() - start < 5
    assert call_from_line(line).data.shape == counted[0]
    assert {finding["line"] for finding in caught.value.findings} == {line}
    assert len(counted) < 200


def test_examples_that_no_longer_fail_are_forgotten():
    suite, broken = remembering(), [True]

    def kernel(x, scale, zero_point=None, **attributes):
        return (wrong_at(128) if broken else sound)(x, scale, zero_point, **attributes)

    with pytest.raises(KernelError):
        verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    assert kept(suite)
    broken.clear()
    verify_kernel(kernel, EDITION, settings=suite, **NARROW)
    assert not kept(suite)


def test_no_test_takes_the_calls_of_another(suite):
    saved = kept(suite)
    verify_kernel(sound, EDITION, settings=suite, **NARROW)
    now_right = wrong_at(-1)  # it has the same name
    other = EDITION.replace("13", "10")
    verify_kernel(wrong_at(-1, edition=other), other, settings=suite, **NARROW)
    verify_kernel(now_right, EDITION, settings=suite, denormals="flush", **NARROW)
    assert kept(suite) == saved
    verify_kernel(now_right, EDITION, settings=suite, **NARROW)
    assert not kept(suite)


def test_damaged_examples_are_dropped(suite):
    (key,) = suite.database.data
    suite.database.save(key, b"\xff")
    suite.database.save(key, b"ai.onnx/DequantizeLinear-13 x=uint8[]:zz")
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128), EDITION, settings=suite, **NARROW)
    assert len(kept(suite)) == 1


def test_the_phases_of_the_suite_are_respected(suite):
    counted = []
    with pytest.raises(KernelError):
        verify_kernel(wrong_at(128, counted), EDITION, settings=settings(suite, phases=[Phase.generate]), **NARROW)
    assert len(counted) > 200  # the saved example did not come first
