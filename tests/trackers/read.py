"""Prints, as one line of JSON, what TensorBoard's and Weights & Biases' own packages read of a run's metrics.

    read.py tensorboard DIRECTORY      {"TAG": [[step, value, wall_time], ...]}, as TensorBoard shows it
    read.py events DIRECTORY           [[step, "TAG"], ...], everything that stands in the files
    read.py wandb FILE.wandb           {"run": {...}, "history": [{...}], "summary": {...}, "exit": code}
"""

import json
import os
import sys


def tensorboard(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(directory, size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [[event.step, event.value, event.wall_time] for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def events(directory):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    read = []
    for name in sorted(os.listdir(directory)):
        for event in EventFileLoader(os.path.join(directory, name)).Load():
            read += [[event.step, value.tag] for value in event.summary.value]
    return read


def wandb(path):
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    def values(items):
        return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}

    read = {"history": [], "summary": {}, "exit": None}
    log = DataStore()
    log.open_for_scan(path)
    while (data := log.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            read["run"] = {
                "id": run.run_id,
                "project": run.project,
                "name": run.display_name,
                "config": values(run.config.update),
                "start_time": run.start_time.seconds,
            }
        elif kind == "history":
            read["history"].append({"step": record.history.step.num, **values(record.history.item)})
        elif kind == "summary":
            read["summary"] = values(record.summary.update)
        elif kind == "exit":
            read["exit"] = record.exit.exit_code
    return read


print(json.dumps({"tensorboard": tensorboard, "events": events, "wandb": wandb}[sys.argv[1]](sys.argv[2])))
