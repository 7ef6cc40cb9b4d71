"""A function under test in the test's own process, with the interface of a worker."""

from __future__ import annotations

import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from suite_kernels import EDITION, NARROW, TO_128, profile, sound

from xverify.core import fenv
from xverify.core.call import encode_call
from xverify.core.errors import WorkerFailedError
from xverify.core.line import call_from_line
from xverify.testing import KernelError, verify_call, verify_kernel
from xverify.workers.in_process import InProcessWorker


def encoded(line: str = TO_128) -> bytes:
    return encode_call(call_from_line(line))


def flushes() -> bool:
    return bool(np.float32(2**-126) * np.float32(0.5) == 0)


@pytest.fixture
def flushing_environment(tmp_path):
    """A floating-point environment that flushes subnormals, made by a library built with -ffast-math."""
    import ctypes

    from flushing_library import SOURCE
    from native_compiler import compiled

    source = tmp_path / "flush.c"
    source.write_text(SOURCE, encoding="utf-8")
    library = ctypes.CDLL(str(compiled(source, tmp_path)))
    with fenv.preserved():
        library.flush_subnormals()
        yield fenv.current()


def test_a_kernel_that_flushes_falsifies_nothing_here(flushing_environment):
    def kernel(x, scale, zero_point=None, **attributes):
        fenv.enter(flushing_environment)
        return x.astype(np.float32) * scale

    line = f"{EDITION} x=uint8[]:01 scale=float32[]:00000001"
    with fenv.standard():
        with pytest.raises(KernelError, match="legal: 1e-45"):
            verify_call(kernel, line)
        assert not flushes()
        verify_call(kernel, line, denormals="flush")


def test_the_function_runs_in_the_environment_that_its_process_has(flushing_environment):
    seen = []

    def kernel(*operands, **attributes):
        seen.append(flushes())
        return sound(*operands, **attributes)

    assert flushes()
    with pytest.raises(KernelError, match="legal: 1e-45"):
        verify_call(kernel, f"{EDITION} x=uint8[]:01 scale=float32[]:00000001")
    assert flushes()
    assert all(seen)


def test_a_function_answers_as_a_worker_does():
    worker = InProcessWorker(sound, fenv.current())
    worker.start()
    assert (worker.ready, worker.pending, worker.failed) == (True, 0, None)
    worker.submit([(encoded(), ""), (encoded(f"{EDITION} x=uint8[]:80 scale=int8[]:01"), "")])
    assert worker.pending == 1
    assert worker.done()
    answered, refused = worker.collect()
    assert answered.tensor.codes == 0x43000000
    assert (refused.kind, refused.error) in {("rejected", "TypeError"), ("rejected", "ValueError")}
    assert worker.ask(encoded(), "threads").kind == "tensor"
    assert worker.calls == 3
    with pytest.raises(ValueError, match="nothing is pending"):
        worker.collect()
    worker.submit([(encoded(), "")])
    worker.stop()
    assert worker.failed
    worker.submit([(encoded(), "")])
    for question in (worker.collect, partial(worker.ask, encoded())):
        with pytest.raises(WorkerFailedError, match="it was stopped"):
            question()


def test_between_calls_the_caller_has_its_turn_and_may_give_up():
    def slow(*operands, **attributes):
        time.sleep(0.1)
        return sound(*operands, **attributes)

    bell = threading.Event()
    worker = InProcessWorker(slow, fenv.current(), bell=bell)
    worker.submit([(encoded(), "")] * 9)
    assert bell.is_set()
    assert not worker.done()
    worker.abandon()
    kinds = [outcome.kind for outcome in worker.collect()]
    assert (kinds[0], kinds[-1], len(kinds)) == ("tensor", "unasked", 9)


def test_an_interrupt_passes_and_a_warning_is_no_refusal():
    def interrupted(*operands, **attributes):
        raise KeyboardInterrupt

    def warning(*operands, **attributes):
        warnings.warn("it is old", DeprecationWarning, stacklevel=1)
        return sound(*operands, **attributes)

    with pytest.raises(KeyboardInterrupt):
        InProcessWorker(interrupted, fenv.current()).ask(encoded())
    with pytest.raises(KeyboardInterrupt):
        verify_kernel(interrupted, EDITION, settings=profile(), **NARROW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert InProcessWorker(warning, fenv.current()).ask(encoded()).kind == "tensor"
