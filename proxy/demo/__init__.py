"""`veil demo`: real brokers, Veil before them, and both sides shown.

    redis.py   a Valkey, two users                    kafka.py   a mock cluster of three brokers, two listeners
    files.py   config, rules, what is on record       screen.py  what is printed

Everything listens on loopback and lives in one folder, a temporary one unless it is named; the brokers end with the
demo. The check at the end is the point: the masked side must show no secret, the unmasked side all of them, and Veil's
own files none. A broker that is not installed is left out, and the demo says so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import trio

from proxy.app import App, Bound
from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry
from proxy.process import unwrapped
from proxy.runtime.listen import CannotBind
from proxy.runtime.log import Log
from proxy.runtime.upstream import Address
from proxy.settings import load_configuration

from . import kafka, redis
from .files import KAFKA, KAFKA_AUDITOR, ORDINARY, PERMITTED, REDIS, last_entry, spilled, write_files
from .redis import PASSWORD
from .screen import HOST, START_S, DemoFailed, Screen, free_port

READ, REFUSED = "broker.message.read-unmasked", "masking.refused"
NO_KAFKA = "not shown: the package confluent-kafka is not installed (pip install 'veil[demo]')"


@dataclass(frozen=True, slots=True)
class Brokers:
    """What stands behind Veil; None where it is not installed."""

    valkey: Address
    cluster: kafka.Cluster | None


async def _show(app: App, bound: Bound, brokers: Brokers, screen: Screen, folder: Path) -> bool:
    """Prints both sides of both; whether all is as it must be."""
    configuration = app.configuration
    directory = configuration.rules_directory
    assert directory is not None
    at = {settings.connection.name: address for settings, address in bound.listeners}
    with trio.move_on_after(START_S):
        await app.watch.first_read.wait()
    count = len(app.current.policy.rules)
    seen = await redis.look(at[REDIS])
    orders = None
    if brokers.cluster is not None:
        orders = await trio.to_thread.run_sync(kafka.look, brokers.cluster, at[KAFKA], at[KAFKA_AUDITOR])
    audit = configuration.audit_path
    screen.line(screen.bold("veil demo") + f"   rules {directory} ({count})   audit {audit}   admin http://{bound.admin}")
    screen.line(f"  redis  {at[REDIS]} -> valkey {brokers.valkey}")
    if brokers.cluster is None or orders is None:
        screen.line(f"  kafka  {NO_KAFKA}")
    else:
        told = ", ".join(str(each.port) for each in orders.brokers)
        screen.line(f"  kafka  {at[KAFKA]} -> mock cluster {brokers.cluster.bootstrap}; its brokers through Veil: {told}")
    screen.line()
    redis.show(seen, screen)
    screen.told("audited", last_entry(audit, READ, "redis") or "nothing")
    if orders is not None:
        screen.line()
        kafka.show(orders, screen)
        screen.told("audited", last_entry(audit, READ, "kafka") or "nothing")
        screen.told("audited", last_entry(audit, REFUSED, "kafka") or "nothing")
    screen.line()
    for user in (ORDINARY, PERMITTED):
        screen.told("try it", f"redis-cli -p {at[REDIS].port} --user {user} --pass {PASSWORD} GET customer:1")
    if orders is not None:
        for name in (KAFKA, KAFKA_AUDITOR):
            screen.told("try it", f"kcat -b {at[name]} -t {kafka.TOPIC} -C -o beginning -e")
    screen.line(f"edit the rules in {directory} and read again: no restart")
    wrong = [*seen.wrong, *(() if orders is None else orders.wrong), *spilled(folder, redis.SECRETS + kafka.SECRETS)]
    for each in wrong:
        sys.stderr.write(f"veil demo: {each}\n")
    screen.line()
    screen.told("self-check", "failed" if wrong else "passed")
    return not wrong


async def _run(folder: Path, protocols: dict[str, ProtocolEntry], screen: Screen, *, once: bool) -> bool:
    server = redis.valkey_server()
    valkey = Address(HOST, free_port())
    cluster = await trio.to_thread.run_sync(kafka.Cluster) if kafka.is_there() else None
    try:
        return await _serve(folder, protocols, screen, Brokers(valkey, cluster), server, once=once)
    finally:
        if cluster is not None:
            cluster.close()


async def _serve(
    folder: Path, protocols: dict[str, ProtocolEntry], screen: Screen, brokers: Brokers, server: Path, *, once: bool
) -> bool:
    nodes = {} if brokers.cluster is None else brokers.cluster.nodes
    with (folder / "veil.log").open("a", encoding="ascii") as log:
        app = App(load_configuration(write_files(folder, brokers.valkey, nodes), {}, protocols), protocols, Log(log))
        good = False
        async with trio.open_nursery() as nursery:
            await redis.start_valkey(nursery, server, brokers.valkey)

            async def serve(task_status: trio.TaskStatus[Bound]) -> None:
                await app.run(task_status=task_status)
                nursery.cancel_scope.cancel()

            bound: Bound = await nursery.start(serve)
            good = await _show(app, bound, brokers, screen, folder)
            if once or not good:
                app.stop()
                app.stop()
            else:
                screen.line("Ctrl-C ends it")
        return good


def main(*, once: bool, directory: Path | None, out: TextIO | None = None) -> int:
    """Runs the demo. 0 when all is as it must be, 1 when not or when it cannot be shown."""
    from proxy.protocols import PROTOCOLS

    screen = Screen(out or sys.stdout)
    good = False

    def work(folder: Path) -> Callable[[], None]:
        async def run() -> None:
            nonlocal good
            good = await _run(folder, dict(PROTOCOLS), screen, once=once)

        return lambda: trio.run(run)

    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            unwrapped(work(directory))
        else:
            with tempfile.TemporaryDirectory(prefix="veil-demo-") as folder:
                unwrapped(work(Path(folder)))
    except (DemoFailed, CannotBind) as failed:
        sys.stderr.write(f"veil demo: {failed}\n")
        return 1
    except ConfigError as bad:
        sys.stderr.write("".join(f"{problem}\n" for problem in bad.problems))
        return 1
    except OSError as failed:
        sys.stderr.write(f"veil demo: {failed.strerror or type(failed).__name__}\n")
        return 1
    return 0 if good else 1
