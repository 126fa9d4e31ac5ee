"""Check which data may leave this machine: public data to any host, other data to hosts that the user allows.

[tool.medvqa]
allowed_hosts = ["gpu1.clinic.example", "10.0.0.5:8000"]    # of a pyproject.toml

The list is in the project's own pyproject.toml, not in a model's config: a config from elsewhere must not allow its
own host.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from medvqa import configs
from medvqa.backend import Backend, destinations, is_remote
from medvqa.backends import reaching
from medvqa.items import Benchmark, Item, UsageError
from medvqa.judging import may_ask
from medvqa.protocols import ablation
from medvqa.protocols.shots import Pool
from medvqa.records import bucket
from medvqa.records.address import Address, is_address
from medvqa.records.log import ANSWERS, Reuse, head_at, logs
from medvqa.records.run_record import RUN, read_run
from medvqa.records.selected import selected
from medvqa.session.answer_sources import AnswerSources
from medvqa.session.chosen import Chosen
from medvqa.session.judging import Judging
from medvqa.session.options import Options
from medvqa.session.plan import Plan

FILE = "pyproject.toml"
KEY = "allowed_hosts"
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_HOST = re.compile(r"([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
"""Some libraries take a name with such an end for an address."""


def check(plan: Plan) -> None:
    """UsageError if data that are not declared public would be sent to a machine that is not allowed."""
    private = [name for name, benchmark in plan.benchmarks.items() if not benchmark.public]
    if destinations(plan.model.backend):
        asked, known = {name: _asked(plan, name) for name in private}, dict(plan.benchmarks)
        if (pool := other_pool(plan)) is not None:
            asked[pool.name] = _counted(plan, pool.items)
            known[pool.name] = Benchmark(name=pool.name, items=lambda _: pool.items, public=pool.public)
        check_sent(plan.model, asked, known, plan.project.root)
    check_kept(plan.options, private, plan.benchmarks, plan.project.root)
    if plan.judge is not None and destinations(plan.judge.chosen.backend):
        counts = {name: count for name in private if (count := _judged(plan, plan.judge, name))}
        check_sent(plan.judge.chosen, in_words(counts), plan.benchmarks, plan.project.root)


def check_sent(chosen: Chosen, counts: Mapping[str, str], known: Mapping[str, Benchmark], root: Path) -> None:
    """UsageError if benchmarks that are not declared public would be sent to a machine that is not allowed.

    `counts`: the data that would be sent, by benchmark, such as "60 questions and 60 images". `root`: the folder of the
    project's pyproject.toml.
    """
    private = {name: count for name, count in counts.items() if not known[name].public}
    origins = destinations(chosen.backend)
    if not (private and origins):
        return
    allowed = allowed_hosts(root / FILE)
    counted = "; ".join(f"{count} of {name}" for name, count in private.items())
    for origin in origins:
        if not _is_allowed(origin, allowed):
            entry = origin.partition("://")[2].lower()
            raise UsageError(
                f"--{chosen.role}={chosen.spec} would send to {origin} what is not declared public: {counted}. Add "
                f"--allow-upload if the owners of the data permit it. If the server is your own, write into "
                f'{root / FILE}: [tool.medvqa] {KEY} = ["{entry}"]. If anybody may have the data, say public=True in '
                "their Benchmark, or public = true in the file that declares it. Or choose others with --benchmark"
            )
        via = reaching.proxy(origin)
        if via is not None and not _is_allowed(via, allowed):
            raise UsageError(
                f"--{chosen.role}={chosen.spec} would send what is not declared public ({counted}) to {origin} through "
                f"the proxy {via} of the environment. Name the host in NO_PROXY, add the proxy's host to {KEY} in "
                f"{root / FILE}, or add --allow-upload"
            )


def check_kept(options: Options, names: Sequence[str], known: Mapping[str, Benchmark], root: Path) -> None:
    """UsageError if answers to benchmarks that are not declared public would be kept on a machine that is not allowed.

    An answer may tell what an image or a question holds. A shared folder (`file:///`) is on the machine's own disks.
    """
    private = [name for name in names if name not in known or not known[name].public]
    if private and not options.allow_upload:
        for address in addresses(options):
            _check_address(address, private, root)


def check_held(options: Options, folder: Path, known: Mapping[str, Benchmark], root: Path) -> None:
    """UsageError if answers of a run's earlier sessions would be kept on a machine that is not allowed.

    They may be in logs that other runs may use since those sessions named another place. UsageError or DataError, too,
    if it cannot be read which questions they asked.
    """
    if not addresses(options):
        return
    try:
        heads = [head_at(path) for path in logs(folder / ANSWERS)]
    except OSError as error:
        raise UsageError(f"answers in {folder} cannot be read: {error.strerror or error}") from error
    if any(head is not None and head.reuse == "all" for head in heads):
        asked = {key.benchmark for key in selected(folder)}
        if (folder / RUN).is_file():
            asked.update(read_run(folder).benchmarks)
        check_kept(options, sorted(asked), known, root)


def addresses(options: Options) -> list[Address]:
    """Return the addresses among the places that --answers names."""
    return [Address.of(text) for text in options.answers if is_address(text)]


def reuse(sources: AnswerSources, asked: Iterable[Benchmark]) -> Reuse:
    """Return who may use answers to these benchmarks besides their run.

    Answers to questions that are not declared public go into a place only if it was named, which `check_kept` allows.
    """
    return "all" if sources.places or all(benchmark.public for benchmark in asked) else "here"


def _check_address(address: Address, private: Sequence[str], root: Path) -> None:
    """UsageError if answers to these benchmarks may not be kept at an address."""
    if address.scheme == "file":
        return
    server = bucket.endpoint(address, os.environ)
    origin = None if server is None else "://".join(urlsplit(server)[:2])
    via = None if origin is None else reaching.proxy(origin)
    if origin is not None and via is None and not is_remote(origin):
        return
    allowed = allowed_hosts(root / FILE)
    if origin is not None and _is_allowed(origin, allowed) and (via is None or _is_allowed(via, allowed)):
        return
    entry = "HOST:PORT" if origin is None else origin.partition("://")[2].lower()
    raise UsageError(
        f"--answers={address} would send answers to {', '.join(private)} to "
        f"{'another machine' if origin is None else reaching.routes([origin])}; these are "
        "not declared public. Add --allow-upload if the owners of the data permit it. If the server is your own and "
        f'the environment names it, write into {root / FILE}: [tool.medvqa] {KEY} = ["{entry}"]. '
        "--answers=file:///FOLDER shares a folder instead"
    )


def kept_notice(options: Options, names: Sequence[str], answering: Sequence[Chosen]) -> str | None:
    """Return a line that says where answers are kept besides this machine, or that --answers is of no use; else None.

    `answering`: the model, the judge. A backend with the default `fingerprint()` has none, so nothing of it is shared;
    any other may still return None once it is loaded.
    """
    kept = addresses(options)
    if not options.answers or not names:
        return None
    places = " and ".join(map(str, kept))
    nameless = [chosen for chosen in answering if type(chosen.backend).fingerprint is Backend.fingerprint]
    if len(nameless) == len(answering):
        have = "has" if len(nameless) == 1 else "have"
        specs = " and ".join(f"'{chosen.spec}'" for chosen in nameless)
        besides = f"not in {places}" if kept else "and none of another run is used"
        return f"medvqa: {specs} {have} no fingerprint: answers are kept in the run folder alone, {besides}"
    if not kept:
        return None
    servers = [server for address in kept if (server := bucket.endpoint(address, os.environ)) is not None]
    origins = list(dict.fromkeys("://".join(urlsplit(server)[:2]) for server in servers))
    where = f", at {reaching.routes(origins)}" if origins else ""
    who = " and ".join(f"'{chosen.spec}'" for chosen in answering if chosen not in nameless)
    return f"medvqa: answers to {', '.join(names)} are kept in {places} too{where}, if {who} has a fingerprint"


def in_words(judged: Mapping[str, int]) -> dict[str, str]:
    """Describe the data sent to a judge, by benchmark; `judged` counts questions."""
    return {name: f"up to {count:,} questions with references and answers" for name, count in judged.items()}


def _judged(plan: Plan, judge: Judging, name: str) -> int:
    """Count the questions of a benchmark that may be judged."""
    benchmark = plan.benchmarks[name]
    techniques = [name for name in plan.techniques if name in benchmark.techniques]
    return sum(
        any(benchmark.applies(item, name) and may_ask(benchmark, item, name, judge.settings) for name in techniques)
        for item in plan.items(name)
    )


def _asked(plan: Plan, name: str) -> str:
    """Describe the data of a benchmark that are sent to a model."""
    return _counted(plan, plan.items(name))


def _counted(plan: Plan, items: Sequence[Item]) -> str:
    shown = {image.name for item in items for image in item.images}
    if not shown or plan.ablation in ("text-only", "blank"):
        return f"{len(items):,} questions"
    return f"{len(items):,} questions and {len(shown):,} images"


def other_pool(plan: Plan) -> Pool | None:
    """Return the pool of solved examples; None if there is none, or if it is one of the benchmarks that are asked."""
    pool = plan.pool if plan.protocol.shots else None
    return None if pool is None or pool.name in plan.benchmarks else pool


def allowed_hosts(path: Path) -> frozenset[tuple[str, int | None]]:
    """Read the hosts that may get any data, as (host, port), port None for all. UsageError if an entry is no host."""
    table = configs.project_table(path)
    listed = table.get(KEY, [])
    if not isinstance(listed, list):
        raise UsageError(f'{path}: [tool.medvqa] {KEY}: a list is expected, such as ["gpu1.clinic.example"]')
    return frozenset(_entry(path, host) for host in listed)


def _entry(path: Path, written: object) -> tuple[str, int | None]:
    match = _HOST.fullmatch(written) if isinstance(written, str) else None
    host = None if match is None else _normal(match[1])
    port = None if match is None or match[2] is None else int(match[2])
    if host is None or (port is not None and not 0 < port < 2**16):
        raise UsageError(
            f"{path}: [tool.medvqa] {KEY}: {written!r} is no host. Write a whole name or address, with a port if only "
            'that one is meant, such as "gpu1.clinic.example", "10.0.0.5:8000" or "[fd00::5]:8000": no scheme, path, '
            "user or wildcard; letters beyond ASCII as in a URL (xn--...)"
        )
    return host, port


def _normal(host: str) -> str | None:
    """Return a host in the form for comparison; None if libraries disagree whether it is an address."""
    host = host.lower()
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        name = host.removesuffix(".")
        return None if host.startswith("[") or ".." in name or _NUMBER.fullmatch(name) else name


def _is_allowed(origin: str, allowed: frozenset[tuple[str, int | None]]) -> bool:
    """Whether an origin's host is listed, without a port or with its own."""
    scheme, _, rest = origin.partition("://")
    match = _HOST.fullmatch(rest)
    host = None if match is None else _normal(match[1])
    if match is None or host is None:
        return False
    port = int(match[2]) if match[2] is not None else _PORTS.get(scheme)
    return (host, None) in allowed or (port is not None and (host, port) in allowed)


def notices(plan: Plan) -> list[str]:
    """Return lines about data that will leave this machine, for the model and for the judge; [] for none.

    Items that are deselected later count too.
    """
    lines = [_notice(plan)]
    answering = [plan.model, *([] if plan.judge is None else [plan.judge.chosen])]
    lines.append(kept_notice(plan.options, list(plan.benchmarks), answering))
    if plan.judge is not None and destinations(plan.judge.chosen.backend):
        lines.append(plan.judge.notice([name for name in plan.benchmarks if _judged(plan, plan.judge, name)]))
    return [line for line in lines if line is not None]


def _notice(plan: Plan) -> str | None:
    origins = destinations(plan.model.backend)
    if not origins:
        return None
    where, pool = reaching.routes(origins), other_pool(plan)
    names = ", ".join([*plan.benchmarks, *([f"the pool {pool.name}"] if pool is not None else [])])
    if plan.ablation in ("text-only", "blank"):
        return f"medvqa: questions of {names} will be sent to {where}, with {ablation.LABELS[plan.ablation]}"
    asked = [item for name in plan.benchmarks for item in plan.items(name)]
    shown = {(item.benchmark, image.name) for item in (*asked, *(pool.items if pool else ())) for image in item.images}
    return f"medvqa: up to {len(shown)} images of {names} will be sent to {where}"
