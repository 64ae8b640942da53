"""The command `veil`: arguments in, an exit code out. Each verb imports what it needs when it is called.

Errors go to standard error, a line each. Exit codes: 0 fine; 1 a verb met problems; 2 usage, and for `run` a
bad config; 3 `run` cannot listen.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from proxy import auditing

if TYPE_CHECKING:
    from rules.model import Kind, Platform, Problem, RuleBook

FINE, PROBLEMS, USAGE, CANNOT_BIND = 0, 1, 2, 3
WORKERS_LIMIT = 256  # more than machines have processors
PARTS = "value | key | header:NAME | field:NAME"
Verb = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments say. Comes back with the exit code; usage errors and --help exit themselves."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # masks are not ASCII, whatever the locale says
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.verb is None:
        parser.print_help(sys.stderr)
        return USAGE
    try:
        return int(asked.verb(asked))
    except BrokenPipeError:  # the reader of a pipe has enough; nothing is left to be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEMS
    except KeyboardInterrupt:
        return 130


class _Parser(argparse.ArgumentParser):
    """A usage error is one line, as every other error is; `--help` has the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        from proxy.release import scanner, version

        sys.stdout.write(f"veil {version()} (scanner: {scanner()})\n")
        parser.exit(FINE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="veil", description="A masking proxy between tools and brokers.", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and which scanner masks")
    parser.set_defaults(verb=None)
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND")

    def verb(name: str, does: Verb, text: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.set_defaults(verb=does)
        return added

    run = verb("run", _run, "Run every listener until SIGTERM or SIGINT; SIGHUP reads rules and TLS files at once.")
    run.add_argument("--config", required=True, metavar="FILE", help="the config, veil.yaml")
    run.add_argument("--workers", type=_workers, default=1, metavar="N", help="processes that share the readers (default: 1)")
    run.add_argument("--worker", type=int, metavar="FD", help=argparse.SUPPRESS)  # how one of them is started

    check = verb("check", _check, "Read config and rules, connect to nothing, and tell every problem.")
    what = check.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="FILE", help="a config, with its rules")
    what.add_argument("--rules", metavar="DIR", help="a directory of rule files")

    preview = verb("preview", _preview, "Mask FILE as a reader would see it and write exactly those bytes.")
    _add_resource(preview)
    preview.add_argument("--part", default="value", metavar="PART", help=f"{PARTS} (default: value)")
    preview.add_argument("--as", dest="user", metavar="USER", help="the reader (default: an ordinary one)")
    preview.add_argument("--json", action="store_true", help="print the result and what was masked as JSON")
    preview.add_argument("file", nargs="?", default="-", metavar="FILE", help="- or left out: standard input")

    explain = verb("explain", _explain, "Tell which rules cover a resource and which are lifted, and why.")
    _add_resource(explain)
    explain.add_argument("--as", dest="user", required=True, metavar="USER", help="the reader")

    surface = verb("surface", _surface, "Print a protocol's table: each operation, what it exposes, what is done.")
    surface.add_argument("protocol", nargs="?", metavar="PROTOCOL", help="left out: each protocol's")

    from proxy.ruleset import add_arguments

    add_arguments(verb("rules", _rules, "Push, pull and compare the rules of a store in Redis."))

    audit = verb("audit", _audit, "Check or search an audit trail.")
    auditing.add_arguments(audit)

    demo = verb("demo", _demo, "Start a real broker and Veil before it, and show both sides.")
    demo.add_argument("--once", action="store_true", help="check, print and end")
    demo.add_argument("--directory", type=Path, metavar="DIR", help="keep rules and audit file here (default: a temporary one)")

    schema = verb("schema", _schema, "Print a JSON Schema for editors.")
    schema.add_argument("of", choices=("config", "rules", "access"), metavar="config|rules|access")
    return parser


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules", required=True, metavar="DIR", help="the directory of rule files")
    parser.add_argument("--platform", required=True, metavar="P", help="kafka, rabbitmq, artemis, redis, memcached")
    parser.add_argument("--resource", required=True, metavar="KIND=NAME", help="such as key=customer:1")
    parser.add_argument("--connection", metavar="C", help="left out: rules of every scope, grants without one")
    parser.add_argument("--environment", metavar="E", help="left out: rules of every scope, grants without one")


def _workers(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 1 <= count <= WORKERS_LIMIT:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {WORKERS_LIMIT}, not {text!r}")
    return count


def _say(line: object) -> None:
    sys.stderr.write(f"{line}\n")


def _tell(problems: Sequence[object]) -> None:
    for problem in problems:
        _say(problem)


def _usage(message: str) -> int:
    _say(f"veil: {message}")
    return USAGE


def _run(asked: argparse.Namespace) -> int:
    from proxy import app, supervisor, worker
    from proxy.core.errors import ConfigError
    from proxy.protocols import PROTOCOLS
    from proxy.runtime.listen import CannotBind
    from proxy.settings import load_configuration

    try:
        if asked.worker is not None:
            return worker.run(asked.config, asked.worker, PROTOCOLS)
        if asked.workers > 1:
            supervisor.run(asked.config, PROTOCOLS, asked.workers)
        else:
            app.run(load_configuration(asked.config, os.environ, PROTOCOLS), PROTOCOLS)
    except ConfigError as bad:
        _tell(bad.problems)
        return USAGE
    except CannotBind as failed:
        _say(failed)
        return CANNOT_BIND
    return FINE


def _check(asked: argparse.Namespace) -> int:
    from proxy.core.errors import ConfigError
    from proxy.protocols import PROTOCOLS
    from proxy.settings import load_configuration

    directory: Path | str | None = asked.rules  # as given, so that places are spelled so
    wrong = False
    if asked.config is not None:
        try:
            configuration = load_configuration(asked.config, os.environ, PROTOCOLS)
            directory = configuration.rules_directory
            _tell(configuration.warnings)
        except ConfigError as bad:
            _tell(bad.problems)
            wrong = True
            directory = _directory_of(Path(asked.config))
    if directory is not None:
        wrong = not _check_rules(directory) or wrong
    return PROBLEMS if wrong else FINE


def _directory_of(config: Path) -> Path | None:
    """Where the rules are, of a config that has problems elsewhere, so that all are told in one go."""
    from proxy.settings.load import is_directory
    from rules.store import document

    try:
        node = document.load(config.read_bytes(), str(config)).root
    except OSError:
        return None
    for key in ("store", "files", "directory"):
        node = node.get(key) if isinstance(node, document.Mapping) else None
    if not isinstance(node, document.Scalar) or not node.text:
        return None
    found = config.parent / node.text
    return found if is_directory(found) else None


def _check_rules(directory: Path | str) -> bool:
    from rules.check import warnings
    from rules.store.files import read_directory

    reading = read_directory(directory)
    _tell(reading.problems)
    if reading.book is None:
        return False
    _tell(warnings(reading.book))
    return True


class _Wrong(Exception):
    """A user's mistake in what preview and explain were given, or a problem of the rules; lines to be told."""

    def __init__(self, code: int, lines: Sequence[object]) -> None:
        super().__init__()
        self.code = code
        self.lines = lines


def _book(directory: str) -> RuleBook:
    from rules.store.files import read_directory

    reading = read_directory(directory)
    if reading.book is None:
        problems: tuple[Problem, ...] = reading.problems
        raise _Wrong(PROBLEMS, problems)
    return reading.book


def _preview(asked: argparse.Namespace) -> int:
    from rules.model import Limits
    from rules.preview import PreviewError, as_json, preview

    try:
        platform, kind, name = _resource(asked)
        book = _book(asked.rules)
        data = _contents(asked.file)
        masked = preview(
            book,
            Limits(),
            platform=platform,
            kind=kind,
            name=name,
            connection=asked.connection,
            environment=asked.environment,
            part=asked.part,
            who=asked.user,
            data=data,
        )
    except PreviewError as bad:
        return _usage(str(bad))
    except _Wrong as wrong:
        _tell(wrong.lines)
        return wrong.code
    if asked.json:
        sys.stdout.write(json.dumps(as_json(masked), ensure_ascii=False) + "\n")
    else:
        sys.stdout.buffer.write(masked.data)
    sys.stdout.flush()
    return FINE


def _explain(asked: argparse.Namespace) -> int:
    from rules.explain import explain
    from rules.preview import PreviewError

    try:
        platform, kind, name = _resource(asked)
        lines = explain(
            _book(asked.rules),
            platform=platform,
            kind=kind,
            name=name,
            connection=asked.connection,
            environment=asked.environment,
            who=asked.user,
        )
    except PreviewError as bad:
        return _usage(str(bad))
    except _Wrong as wrong:
        _tell(wrong.lines)
        return wrong.code
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return FINE


def _resource(asked: argparse.Namespace) -> tuple[Platform, Kind, bytes]:
    """The platform, and the kind and name of `--resource`.

    Raises:
        _Wrong: one of them is not known.
    """
    from rules.model import Kind, Platform

    kind, equals, name = asked.resource.partition("=")
    if asked.platform not in tuple(Platform):
        raise _Wrong(USAGE, [f"veil: there is no platform {asked.platform!r} (known: {', '.join(Platform)})"])
    if not equals or kind not in tuple(Kind):
        raise _Wrong(USAGE, [f"veil: --resource must be KIND=NAME, with one of {', '.join(Kind)}, not {asked.resource!r}"])
    return Platform(asked.platform), Kind(kind), os.fsencode(name)


def _contents(file: str) -> bytes:
    """The bytes of the file, or of standard input for `-`.

    Raises:
        _Wrong: it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as failed:
        raise _Wrong(PROBLEMS, [f"{file}: cannot be read: {failed.strerror or type(failed).__name__}"]) from None


def _surface(asked: argparse.Namespace) -> int:
    from proxy.protocols import PROTOCOLS

    if asked.protocol is not None and asked.protocol not in PROTOCOLS:
        return _usage(f"no protocol {asked.protocol!r} in this version (there are: {', '.join(sorted(PROTOCOLS))})")
    for name, entry in sorted(PROTOCOLS.items()):
        if asked.protocol is None:
            sys.stdout.write(f"{name}\n")
        if asked.protocol in (None, name):
            sys.stdout.write(entry.surface())
    return FINE


def _rules(asked: argparse.Namespace) -> int:
    from proxy import ruleset

    return ruleset.main(asked)


def _audit(asked: argparse.Namespace) -> int:
    return auditing.main(asked)


def _demo(asked: argparse.Namespace) -> int:
    from proxy import demo

    return demo.main(once=asked.once, directory=asked.directory)


def _schema(asked: argparse.Namespace) -> int:
    if asked.of == "config":
        from proxy.settings import Settings

        told = Settings.model_json_schema(by_alias=True)
        told["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    else:
        from rules import schema

        told = schema.rules_schema() if asked.of == "rules" else schema.access_schema()
    sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=True) + "\n")
    return FINE
