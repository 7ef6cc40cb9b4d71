"""Shards as tasks of a Dask cluster.

A task returns its result, and the client writes it to disk before it announces the shard. The scheduler holds nothing that
matters. A client that dies leaves the results that are on its disk, and each is merged like that of any other shard.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import re
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xverify.core.errors import UnableError, UsageError
from xverify.core.shard import MOST_SHARDS
from xverify.shards.local import Interrupts
from xverify.shards.task import FINISH, GOES_ON, Done, Task, result_of, run_packed, unpack

CONNECT_SECONDS = 20.0
"""Seconds within which a scheduler must answer."""

RETRIES = 2
"""Further attempts at a shard that ends without a result, made by Dask."""

SUBMISSIONS = 3
"""Most submissions of a shard. Dask gives a task up when four workers have died under it, whoever killed them."""

CHECK_SECONDS = 2.0
"""Seconds between two questions whether the connection still stands, and whether a user has interrupted the run."""

TRIAL = "local-cluster:"

QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.tick.interval": "2s",
    "distributed.admin.tick.cycle": "10s",
}
"""Settings of a trial cluster. Dask's statistics about itself take more processor time than the rest of an idle cluster."""

EXTRA = "--on needs the package distributed; install it with: pip install 'xverify[dask]'"


def checked_address(address: str, needs: Sequence[str]) -> str:
    """The address that the user of ``--on`` means, in Dask's form.

    Raises:
        UsageError: It is no address, or the package distributed is not installed.
    """
    if address.startswith(TRIAL):
        workers = address.removeprefix(TRIAL)
        if not re.fullmatch(r"[1-9]\d{0,3}", workers):
            raise UsageError(f"--on {address}: write local-cluster:N, with the number of worker processes")
        if needs:
            raise UsageError("--needs names resources of Dask workers, and those of local-cluster:N have none")
    elif not re.fullmatch(r"(dask|tcp|tls|ws|wss)://\S+:\d+", address):
        raise UsageError(f"--on {address}: write dask://HOST:PORT, tcp://HOST:PORT or local-cluster:N")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError(EXTRA) from None
    return re.sub(r"^dask://", "tcp://", address)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a cluster.

    Args:
        address: A result of `checked_address`.

    Raises:
        UnableError: No scheduler answers there.
    """
    import dask
    import distributed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it would print a traceback for each lost worker
    with contextlib.ExitStack() as stack:
        target: Any = address
        if address.startswith(TRIAL):
            workers = int(address.removeprefix(TRIAL))
            stack.enter_context(dask.config.set(QUIET))
            target = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
        try:
            if target is address:
                asyncio.run(_greet(address))
            client = distributed.Client(target, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise UnableError(
                f"no Dask scheduler answers at {address} ({reason}); start one with: dask scheduler"
            ) from None
        stack.callback(_closed, client)
        yield client


async def _greet(address: str) -> None:
    """Connect to a scheduler and leave.

    Dask's client would wait for ever for a server that accepts connections and says nothing.
    """
    import distributed
    from distributed.core import connect

    settings = distributed.Security().get_connection_args("client")
    connection = await asyncio.wait_for(connect(address, timeout=CONNECT_SECONDS, **settings), CONNECT_SECONDS)
    connection.abort()


def _closed(client: Any) -> None:
    """Close a client, also if its scheduler is gone."""
    with contextlib.suppress(Exception):
        client.close(timeout=5)


def number_of_shards(client: Any) -> int:
    """The default number of shards: one for each thread of the workers.

    Raises:
        UsageError: The cluster has no workers now.
    """
    threads = sum(client.nthreads().values())
    if not threads:
        raise UsageError("the cluster has no workers now: state the number of shards with -n (certify: --shards)")
    return int(min(threads, MOST_SHARDS))


def without_workers(client: Any, needs: Sequence[str]) -> list[str]:
    """Resources that no worker of the cluster states now."""
    stated = {
        name for worker in client.scheduler_info(n_workers=-1)["workers"].values() for name in worker["resources"]
    }
    return [name for name in needs if name not in stated]


def threads_of_machine(client: Any) -> int:
    """The largest number of worker threads of one machine, so the most shards that run there at once."""
    threads: Counter[str] = Counter()
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        threads[worker["host"]] += worker["nthreads"]
    return max(threads.values(), default=1)


def run_on(
    client: Any,
    tasks: Sequence[Task],
    folder: Path,
    announce: Callable[[Done], None],
    interrupts: Interrupts,
) -> list[Done]:
    """Run all shards on a cluster.

    Args:
        client: The `connected` client.
        tasks: The shards.
        folder: The directory for their results. Workers that see it also write there.
        announce: Called with the end of each shard, after its result is on disk.
        interrupts: The user's ^C.

    Returns:
        The ends of the shards, in the order of the tasks.
    """
    import distributed

    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    run = secrets.token_hex(8)
    token = folder / f".client-{run}"
    token.touch()
    stop = distributed.Event(f"xverify-stop-{run}", client=client)
    ends: queue.SimpleQueue[tuple[Task, int, Any]] = queue.SimpleQueue()
    futures = []

    def submit(task: Task, number: int) -> None:
        future = client.submit(
            _on_worker,
            asdict(task),
            str(folder),
            token.name,
            stop.name,
            key=f"{task.key}-{run}-{number}",
            retries=RETRIES,
            pure=False,
            resources=dict.fromkeys(task.needs, 1) or None,
        )
        futures.append(future)
        future.add_done_callback(lambda ended: ends.put((task, number, ended)))

    gathered: dict[str, Done] = {}
    is_stopping = False
    try:
        with interrupts.handled():
            for task in tasks:
                if (before := result_of(task, folder)) is None:
                    submit(task, 1)
                else:
                    gathered[task.key] = Done(task.key, 0, before)
                    announce(gathered[task.key])
            while len(gathered) < len(tasks):
                if interrupts.presses > 1:
                    raise KeyboardInterrupt
                if interrupts.presses and not is_stopping:
                    is_stopping = True
                    stop.set()
                try:
                    task, number, future = ends.get(timeout=CHECK_SECONDS)
                except queue.Empty:
                    if client.status in ("closing", "closed"):
                        break
                    continue
                done = _gathered(task, future, folder)
                if done.result is None and not done.is_hopeless and not is_stopping and number < SUBMISSIONS:
                    submit(task, number + 1)
                    continue
                gathered[task.key] = done
                announce(done)
    finally:
        token.unlink(missing_ok=True)
        for key in gathered:  # a worker that was killed could not remove its attempt
            for attempt in folder.glob(f".{key}-*"):
                shutil.rmtree(attempt, ignore_errors=True)
        with contextlib.suppress(Exception):
            client.cancel(futures, force=True)
    lost = "the connection to the scheduler was lost"
    return [gathered.get(task.key) or _on_disk(task, folder, lost) for task in tasks]


def _on_disk(task: Task, folder: Path, error: str) -> Done:
    """The end of a shard, by its result on disk alone."""
    result = result_of(task, folder)
    return Done(task.key, 0 if result else -1, result, "" if result else error)


def _gathered(task: Task, future: Any, folder: Path) -> Done:
    """Fetch a task's result and write it to disk."""
    try:
        data = future.result()
        future.release()
        archive = data.pop("archive")
        result = None if archive is None else unpack(task, archive, folder)
        return Done(**{**data, "result": result})
    except Exception as error:  # a task raises what its worker raised
        return _on_disk(task, folder, " ".join(str(error).split())[:300] or type(error).__name__)


def _on_worker(described: dict[str, Any], shared: str, token: str, stop: str) -> dict[str, Any]:
    """Run a shard in a worker of the cluster. The client's event interrupts it."""
    import distributed

    event = distributed.Event(stop)
    _ = event.client  # only this thread can look it up
    ended, is_set, has_looked = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        wait = 0.0
        while not ended.is_set() and not is_set.is_set():
            try:
                if event.wait(timeout=f"{wait}s"):
                    is_set.set()
            except Exception:  # without a scheduler there is nobody to interrupt the shard
                ended.wait(CHECK_SECONDS)
            has_looked.set()
            wait = CHECK_SECONDS

    threading.Thread(target=watch, daemon=True).start()
    has_looked.wait(CHECK_SECONDS)
    try:
        return run_packed(described, shared, token, lambda: FINISH if is_set.is_set() else GOES_ON)
    finally:
        ended.set()
