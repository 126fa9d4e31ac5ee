"""Stand-ins for sbatch and srun: they start the processes of a job with the variables that Slurm sets.

sbatch returns when all tasks have ended, with exit code 0 as the real one, and writes their exit codes to job-ID.json.
The batch script has SLURM_PROCID=0 and no SLURM_STEP_NUM_TASKS, as on a cluster; srun sets both for its tasks.
https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
"""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path


def install(folder: Path) -> None:
    """Write the commands sbatch and srun into a folder, for PATH."""
    folder.mkdir()
    for name in ("sbatch", "srun"):
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
    started = []
    for task in tasks:
        names = {"%x": options["job-name"], "%A": str(job), "%j": str(job), "%a": task.get("SLURM_ARRAY_TASK_ID", "")}
        output = options["output"]
        for mark, text in names.items():
            output = output.replace(mark, text)
        with open(output, "a") as file:
            environment = os.environ | variables | task
            started.append(subprocess.Popen(["bash", script], env=environment, stdout=file, stderr=file))
    Path(f"job-{job}.json").write_text(json.dumps([process.wait() for process in started]))
    print(job if "parsable" in options else f"Submitted batch job {job}")
    return 0


def srun(words: list[str]) -> int:
    """Run a command once for each task of the job, at the same time."""
    _, command = split(words)
    count = int(os.environ["SLURM_NTASKS"])
    step = {"SLURM_STEP_NUM_TASKS": str(count), "SLURM_STEP_ID": "0"}
    started = [
        subprocess.Popen(command, env=os.environ | step | {"SLURM_PROCID": str(number)}) for number in range(count)
    ]
    return max(process.wait() for process in started)


if __name__ == "__main__":
    sys.exit({"sbatch": sbatch, "srun": srun}[sys.argv[1]](sys.argv[2:]))
