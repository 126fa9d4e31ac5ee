"""Files on disk: run folders.

`run_folder`: the files of one run. `run_record`: run.json. `configuration`: what must be equal in runs that are joined
or compared. `coverage`: which questions have a result. `join`: one run from several. `baseline_file`: a run as one
file. `identities`: how the model of stored answers is known. `log`: the answers that a process got, and its calls in
flight. `recall`: stored answers. `suspects`: questions during which a process died. `selected`: the keys of a run's
questions. `remaining`: what to type to finish a joined run. `lock`: one writing session at a time. `answer_places`:
folders and buckets for the logs of several runs (`objects`, `bucket`, at an `address`); `exchange` gives them a run's
logs. `private`: names that stand for patients and files; `auditing` looks for those that were left. `keyed`: hashes in
place of ids and texts.
"""
