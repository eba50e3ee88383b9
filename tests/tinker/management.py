"""The official SDK asks the server whose URL is the first argument for what there is, and changes it. Prints `{}` as the
last line."""

import datetime
import io
import json
import sys
import tarfile
import urllib.request

from sdk import close, ready, refusal, tell

import tinker
from tinker import types

service = tinker.ServiceClient(base_url=sys.argv[1], api_key="tml-test", user_metadata={"purpose": "management"})
rest = service.create_rest_client()
notes = {"renderer_name": "chatml"}
training = ready(service.create_lora_training_client(base_model="tiny", rank=0, user_metadata=notes))
run_id = training.get_info().model_id
path = training.save_state("state", ttl_seconds=3600).result().path
assert path == f"tinker://{run_id}/weights/state", path
sampler_path = training.save_weights_for_sampler("sampler").result().path
assert sampler_path == f"tinker://{run_id}/sampler_weights/sampler", sampler_path
sampler = ready(service.create_sampling_client(model_path=sampler_path))

# What there is.
for run in (rest.get_training_run(run_id).result(), rest.get_training_run_by_tinker_path(path).result()):
    assert (run.base_model, run.corrupted, run.user_metadata) == ("tiny", False, notes), run
    assert run.last_checkpoint.tinker_path == path and run.last_sampler_checkpoint.tinker_path == sampler_path, run
runs = rest.list_training_runs(limit=1).result()
assert [run.training_run_id for run in runs.training_runs] == [run_id] and runs.cursor.total_count >= 1, runs
assert "no training run" in refusal(lambda: rest.get_training_run("x").result())


def checkpoints():
    return {checkpoint.checkpoint_id: checkpoint for checkpoint in rest.list_checkpoints(run_id).result().checkpoints}


assert set(checkpoints()) == {"weights/state", "sampler_weights/sampler"}, checkpoints()
state = checkpoints()["weights/state"]
lifetime = state.expires_at - state.time
assert abs(lifetime - datetime.timedelta(hours=1)) < datetime.timedelta(seconds=2), state
assert state.checkpoint_type == "training" and state.size_bytes > 0 and not state.public, state
assert checkpoints()["sampler_weights/sampler"].expires_at is None
newest_first = [checkpoint.tinker_path for checkpoint in rest.list_user_checkpoints(limit=2).result().checkpoints]
assert newest_first == [sampler_path, path], newest_first
assert rest.get_weights_info_by_tinker_path(path).result().base_model == "tiny"
assert not run.is_lora, run
assert "there is no checkpoint" in refusal(lambda: rest.get_weights_info_by_tinker_path(path + "2").result())
session_id = run_id.split(":")[0]
[sampler_id] = rest.get_session(session_id).result().sampler_ids
found = rest.get_sampler(sampler_id).result()
assert (found.base_model, found.model_path) == ("tiny", sampler_path), found

# What can be taken away.
def fetched(link):
    with urllib.request.urlopen(link) as answer:
        return answer.read()


if hasattr(training, "save_weights_external"):
    external = training.save_weights_external("away").result().path
    assert external == f"tinker://{run_id}/external_weights/away", external
    links = rest.get_external_weights_urls(external).result()
    files = {name: fetched(link) for name, link in links.urls.items()}
    assert links.expires > datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=50)
    rest.delete_checkpoint_from_tinker_path(external).result()
if hasattr(rest, "get_checkpoint_archive_url"):
    link = rest.get_checkpoint_archive_url(run_id, "sampler_weights/sampler").result().url
    with tarfile.open(fileobj=io.BytesIO(fetched(link))) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
assert json.loads(files["config.json"])["max_position_embeddings"] == 128 and len(files["model.safetensors"]) > 1000, set(files)

# What is changed.
rest.publish_checkpoint_from_tinker_path(path).result()
assert checkpoints()["weights/state"].public
rest.unpublish_checkpoint_from_tinker_path(path).result()
assert not checkpoints()["weights/state"].public
rest.set_checkpoint_ttl_from_tinker_path(path, 7200).result()
longer = checkpoints()["weights/state"].expires_at
assert longer > state.expires_at, longer
rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
assert checkpoints()["weights/state"].expires_at is None
assert "from 3600" in refusal(lambda: rest.set_checkpoint_ttl_from_tinker_path(path, 1).result())

# Sessions.
session = rest.get_session(session_id).result()
assert session.training_run_ids == [run_id], session
assert session_id in rest.list_sessions().result().sessions
rest.assign_session_project(session_id, "proj-a").result()
assert "keeps no traces" in refusal(lambda: rest.export_session_trace(session_id).result())
if hasattr(rest, "search_sessions"):
    [run] = rest.list_training_runs(project_id="proj-a").result().training_runs
    assert run.training_run_id == run_id, run
    request = types.SessionSearchRequest(user_metadata={"purpose": "management"}, project_ids=["proj-a"])
    [summary] = rest.search_sessions(request).result().sessions
    assert (summary.session_id, summary.status.type, summary.checkpoints_count) == (session_id, "active", 2), summary

# Copies.
if hasattr(rest, "copy_weights"):
    copy = rest.copy_weights(path, "proj-b", ttl_seconds=3600).result()
    assert copy.endswith("/weights/state") and copy != path, copy
    [run] = rest.list_training_runs(project_id="proj-b").result().training_runs
    assert run.last_checkpoint.tinker_path == copy and run.last_checkpoint.expires_at is not None, run
    rest.delete_checkpoint_from_tinker_path(path).result()
    again = ready(service.create_training_client_from_state_with_optimizer(copy))
    assert again.get_info().model_data.model_name == "tiny"
    rest.delete_checkpoint_from_tinker_path(copy).result()
else:
    rest.delete_checkpoint(run_id, "weights/state").result()
assert "there is no checkpoint" in refusal(lambda: rest.delete_checkpoint_from_tinker_path(path).result())
assert set(checkpoints()) == {"sampler_weights/sampler"}
prompt = types.ModelInput.from_ints([5, 6])
assert len(sampler.compute_logprobs(prompt).result()) == 2
rest.delete_checkpoint(run_id, "sampler_weights/sampler").result()
assert "there is no checkpoint" in refusal(lambda: sampler.compute_logprobs(prompt).result())
close(service)
tell({})
