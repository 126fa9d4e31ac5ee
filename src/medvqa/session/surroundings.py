"""Where a session runs: the commit of its folder, the page of its CI job, and the hardware of its machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from medvqa import printing

JOBS = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
"""Variables that hold the address of a job: GitLab, Jenkins, Buildkite, CircleCI. GitHub's is put together of three."""
CPUS, GPUS = Path("/proc/cpuinfo"), Path("/proc/driver/nvidia/gpus")
LONGEST = 300
"""Characters of each."""


def commit(folder: Path) -> str:
    """Return the commit that is checked out, with "-dirty" if tracked files differ from it; "" outside of git."""
    command = ["git", "-c", "core.fsmonitor=", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10)  # noqa: S603
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    said = done.stdout.strip()
    return said if re.fullmatch(r"[0-9a-f]{40,64}(-dirty)?", said) else ""


def ci(environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of the CI job, without a user, a password or a query; "" outside of CI."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    github = [environment.get(name, "") for name in names]
    addresses = [environment.get(name, "") for name in JOBS]
    if all(github):
        addresses.insert(0, f"{github[0]}/{github[1]}/actions/runs/{github[2]}")
    for address in filter(None, addresses):
        try:
            parts = urlsplit(address)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            continue
        if parts.scheme in ("http", "https") and parts.hostname:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return printing.line(f"{parts.scheme}://{host}{port}{parts.path}")[:LONGEST]
    return ""


def hardware() -> str:
    """Return the processor, the number of cores that this process may use, and the GPUs of NVIDIA's driver."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name = _first(CPUS, "model name") or platform.processor() or platform.machine()
    gpus = sorted(_first(file, "Model") for file in GPUS.glob("*/information"))
    counted = [f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus) if gpu]
    return printing.line(", ".join([f"{name} ({cores} cores)", *counted]))[:LONGEST]


def _first(file: Path, key: str) -> str:
    """The value of the first line "key : value" of a file of the kernel; "" without one."""
    try:
        found = re.search(rf"^{key}\s*:\s*(.+)$", file.read_text("utf-8", "replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip() if found else ""
