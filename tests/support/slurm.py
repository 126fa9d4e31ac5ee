"""Stand-ins for sbatch, srun and scontrol: they start the processes of a job with the variables that Slurm sets.

sbatch returns when all tasks have ended, with exit code 0 as the real one, and writes their exit codes to job-ID.json.
A job that was requeued (`scontrol requeue`) runs again. With STUB_LIMIT=FILE, the time limit of a job that runs for the
first time is near as soon as something is in the file: its steps get SIGTERM, as with --signal=TERM@SECONDS.
The batch script has SLURM_PROCID=0 and no SLURM_STEP_NUM_TASKS, as on a cluster; srun sets both for its tasks.
https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
"""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path


def install(folder: Path) -> None:
    """Write the commands into a folder, for PATH."""
    folder.mkdir()
    for name in ("sbatch", "srun", "scontrol"):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{__file__}" {name} "$@"\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)


def split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options, which all have the form --NAME=VALUE or --NAME, and the words after them."""
    count = next((place for place, word in enumerate(words) if not word.startswith("--")), len(words))
    pairs = (word.removeprefix("--").partition("=") for word in words[:count])
    return {name: value for name, _, value in pairs}, words[count:]


def indexes(array: str) -> list[int]:
    """Return the numbers of an array such as 0-7, 1-15:2 or 2,5."""
    numbers = []
    for part in array.split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+))?(?::(\d+))?", part).groups()  # type: ignore[union-attr]
        numbers += range(int(first), int(last or first) + 1, int(step or 1))
    return numbers


def sbatch(words: list[str]) -> int:
    """Run a batch script, once for each task of an array."""
    typed, (script,) = split(words)
    lines = Path(script).read_text().splitlines()
    options = split([line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")])[0] | typed
    job = 100 + len(list(Path().glob("job-*.json")))
    for kind, earlier in re.findall(r"(\w+):(\d+)", options.get("dependency", "")):
        codes = json.loads(Path(f"job-{earlier}.json").read_text())
        assert kind == "afterany" or not any(codes), f"{kind} of a failed job"
    nodes, per_node = int(options.get("nodes", 1)), int(options.get("ntasks-per-node", 1))
    variables = {
        "SLURM_JOB_ID": str(job),
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": str(nodes * per_node),
        "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
    }
    numbers = indexes(options["array"]) if "array" in options else []
    tasks: list[dict[str, str]] = [{}]
    if numbers:
        about = {"COUNT": len(numbers), "MIN": min(numbers), "MAX": max(numbers)}
        about |= {"STEP": int(options["array"].partition(":")[2] or 1)}
        tasks = [{f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in about.items()} for _ in numbers]
        tasks = [task | {"SLURM_ARRAY_TASK_ID": str(number)} for task, number in zip(tasks, numbers, strict=True)]
    requeued, restarts, codes = Path(f"requeue-{job}"), 0, [0]
    while restarts == 0 or requeued.exists():
        requeued.unlink(missing_ok=True)
        again = {"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}
        codes = batch(script, job, options, [variables | task | again for task in tasks])
        restarts += 1
    Path(f"job-{job}.json").write_text(json.dumps(codes))
    print(job if "parsable" in options else f"Submitted batch job {job}")
    return 0


def batch(script: str, job: int, options: dict[str, str], tasks: list[dict[str, str]]) -> list[int]:
    """Run a script for each task, and return the exit codes."""
    started = []
    for task in tasks:
        names = {"%x": options["job-name"], "%A": str(job), "%j": str(job), "%a": task.get("SLURM_ARRAY_TASK_ID", "")}
        output = options["output"]
        for mark, text in names.items():
            output = output.replace(mark, text)
        with open(output, "a") as file:
            started.append(subprocess.Popen(["bash", script], env=os.environ | task, stdout=file, stderr=file))
    return [process.wait() for process in started]


def srun(words: list[str]) -> int:
    """Run a command once for each task of the job, at the same time."""
    _, command = split(words)
    count = int(os.environ["SLURM_NTASKS"])
    step = {"SLURM_STEP_NUM_TASKS": str(count), "SLURM_STEP_ID": "0"}
    started = [
        subprocess.Popen(command, env=os.environ | step | {"SLURM_PROCID": str(number)}) for number in range(count)
    ]
    limit = Path(os.environ.get("STUB_LIMIT", "none"))
    if "SLURM_RESTART_COUNT" not in os.environ and limit.name != "none":
        while not (limit.exists() and limit.stat().st_size) and any(process.poll() is None for process in started):
            time.sleep(0.05)
        for process in started:
            process.send_signal(signal.SIGTERM)
    return max(process.wait() for process in started)


def scontrol(words: list[str]) -> int:
    """Requeue a job."""
    name, job = words
    assert name == "requeue"
    Path(f"requeue-{job}").touch()
    return 0


if __name__ == "__main__":
    sys.exit({"sbatch": sbatch, "srun": srun, "scontrol": scontrol}[sys.argv[1]](sys.argv[2:]))
