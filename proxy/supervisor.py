"""`veil run --workers N`: looks at the config, takes the addresses, keeps N workers, and answers for them all.

It serves no reader and holds no contents. What would keep every worker from starting is found here, and told once.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import trio
from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from proxy.admin.routes import Routes, State, WorkerState
from proxy.admin.server import AdminServer
from proxy.app import listener_settings, trail_of
from proxy.core.errors import ConfigError
from proxy.core.session import ProtocolEntry
from proxy.process import prepare, unwrapped
from proxy.release import scanner, version
from proxy.runtime.journal import Journal
from proxy.runtime.listen import CannotBind, bind
from proxy.runtime.log import Log
from proxy.runtime.metrics import CONTENT_TYPE, counter, gauge, lines_lost
from proxy.runtime.nodes import open_table
from proxy.runtime.upstream import Address
from proxy.runtime.workers.channel import Message
from proxy.runtime.workers.crew import ANSWER_S, DIFFER, SKEW_S, Crew, Plan, Worker
from proxy.runtime.workers.figures import figures_of, page
from proxy.runtime.workers.ports import Taken, take
from proxy.settings import Configuration, load_configuration
from proxy.settings.load import read_file

FLAGS = re.compile("-[bBdEIOPqsSuv]+")  # of the interpreter: a worker is run as the supervisor is


def run(given: str, protocols: Mapping[str, ProtocolEntry], workers: int) -> None:
    """Runs until a signal.

    Raises:
        ConfigError: the config, the audit trail, a table of nodes or a file of TLS will not do.
        CannotBind: an address cannot be listened on.
    """
    log = Log()
    data = read_file(given)  # once: a worker that is started anew must not read another config than the others have
    configuration = load_configuration(given, os.environ, protocols, data)
    most = configuration.settings.limits.max_connections
    if most < workers:
        raise ConfigError([f"{given}: limits.max_connections is {most}: not one for each of {workers} workers"])
    prepare(log)
    settings = listener_settings(configuration, protocols)
    Journal(trail_of(configuration), log).release()
    for each in settings:
        if each.nodes is not None:
            open_table(each)

    def hello(number: int) -> Message:
        share = most // workers + (number <= most % workers)
        return {"worker": number, "most": share, "config": base64.b64encode(data).decode("ascii")}

    async def main() -> None:
        taken: list[Taken] = []
        admin = configuration.settings.admin.listen
        admin_sockets = await bind(admin)
        try:
            for listener in settings:
                taken += [await take(listener.address)]
                if listener.nodes is not None:  # each worker counts on this order
                    for port in listener.nodes.ports:
                        taken.append(await take(Address(listener.nodes.host, port)))
            plan = Plan(workers, _command(given), _environment(), tuple(taken), hello)
            await Supervisor(configuration, Crew(plan, log), log).run(admin_sockets)
        finally:
            for admin_socket in admin_sockets:
                admin_socket.socket.close()
            for each in taken:
                each.close()

    unwrapped(lambda: trio.run(main))


def _command(given: str) -> tuple[str, ...]:
    flags = []
    for each in sys.orig_argv[1:]:
        if not FLAGS.fullmatch(each):
            break
        flags.append(each)
    # -P: with -m the folder that is worked in would be looked into first, whoever may write there.
    return (sys.executable, *dict.fromkeys((*flags, "-P")), "-m", "proxy", "run", "--config", given, "--worker")


def _environment() -> dict[str, str]:
    """This one's, with the package found where it is here, though the folder that is worked in is not looked into."""
    here = str(Path(__file__).resolve().parents[1])
    found = os.environ.get("PYTHONPATH")
    if here in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, *([found] if found else [])])}


class Supervisor:
    def __init__(self, configuration: Configuration, crew: Crew, log: Log) -> None:
        self._configuration = configuration
        self._crew = crew
        self._log = log
        self._process = ProcessCollector(registry=None)

    async def run(self, admin_sockets: list[trio.SocketListener]) -> None:
        """
        Raises:
            ConfigError, CannotBind: a worker could not serve at all, for this reason.
        """
        listen = self._configuration.settings.admin.listen
        admin = Address(listen.host, int(admin_sockets[0].socket.getsockname()[1]))
        async with trio.open_nursery() as nursery:
            await nursery.start(self._obey_signals)
            routes = Routes(self.state, self.metrics, CONTENT_TYPE, self._crew.refresh)
            nursery.start_soon(AdminServer(routes, admin, self._log).run, admin_sockets)
            nursery.start_soon(self._tell_up, admin)
            await self._crew.run()
            nursery.cancel_scope.cancel()
        self._log.info("stopped")
        refused = self._crew.refused
        if refused is not None and refused.code == 3:
            raise CannotBind("\n".join(refused.problems))
        if refused is not None:
            raise ConfigError(refused.problems)

    async def _tell_up(self, admin: Address) -> None:
        await self._crew.up.wait()
        self._log.info("serving", version=version(), scanner=scanner(), address=str(admin), count=self._crew.wanted)

    async def _obey_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            task_status.started()
            async for number in received:
                self._log.info("signal", signal=signal.Signals(number).name)
                if number == signal.SIGHUP:
                    with trio.move_on_after(ANSWER_S):
                        await self._crew.reread()
                else:
                    self._crew.drain()

    def state(self) -> State:
        """The state of the whole: what one worker lacks, it lacks."""
        workers, wanted = self._crew.living, self._crew.wanted
        reports = [each.report for each in workers if each.report is not None]
        warnings = [warning for each in reports for warning in each.warnings]
        missing = wanted - len(workers)
        if missing and not self._crew.draining:
            warnings.append(f"{missing} of {wanted} workers {'is' if missing == 1 else 'are'} being started")
        warnings += [f"worker {each.number} does not answer" for each in workers if not _answers(each)]
        if self._crew.differ_for_s > SKEW_S:
            warnings.append(DIFFER)
        return State(
            rules_read=len(reports) == wanted and all(each.rules_read for each in reports),
            bound=len(workers) == wanted and all(map(_serves, workers)),
            draining=self._crew.draining,
            audit_failing=any(each.audit_failing for each in reports),
            problems=tuple(dict.fromkeys(problem for each in reports for problem in each.problems)),
            warnings=tuple(dict.fromkeys(warnings)),
            workers=tuple(
                WorkerState(
                    each.number,
                    each.process.pid,
                    _serves(each) and each.report is not None and each.report.rules_read,
                    "" if each.report is None else each.report.version,
                )
                for each in workers
            ),
        )

    def metrics(self) -> bytes:
        return page(self._crew.figures(figures_of([*self._process.collect(), *self._own()])))

    def _own(self) -> list[Metric]:
        return [
            gauge("veil_workers", "Processes that serve readers.", sum(map(_serves, self._crew.living))),
            gauge("veil_workers_wanted", "Processes there should be.", self._crew.wanted),
            counter("veil_worker_restarts", "Processes started in place of one that had ended.", self._crew.restarts),
            lines_lost(self._log),
        ]


def _answers(worker: Worker) -> bool:
    return worker.silent_for_s() < ANSWER_S


def _serves(worker: Worker) -> bool:
    return _answers(worker) and worker.report is not None and worker.report.bound and not worker.report.draining
