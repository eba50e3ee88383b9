"""What is behind a model, and how it is changed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from conftest import Server
from fulgurite.client import Client, FulguriteError, RefusedError


def test_new_weights_are_put_behind_a_model_and_known_everywhere(
    server: Server, client: Client, tmp_path: Path
) -> None:
    before = client.model("tiny")
    assert before.weights_state == "serving"
    assert before.weights_version is not None
    directory = shutil.copytree(os.environ["FULGURITE_MODEL"], tmp_path / "model")
    after = client.publish_weights("tiny", directory=str(directory), version=before.weights_version + 5)
    assert after.weights_version == before.weights_version + 5
    (published,) = client.publications()
    assert (published.model, published.version, published.cause) == ("tiny", after.weights_version, "update")
    assert after.weights_version in [named.version for named in client.named_weights("tiny")]
    # Servers say now and then how far they have got.
    end = time.monotonic() + 60
    while [(served.version, served.state) for served in client.served_weights()] != [
        (after.weights_version, "serving")
    ]:
        assert time.monotonic() < end, client.served_weights()
        time.sleep(0.05)
    with pytest.raises(RefusedError, match=f"{after.weights_version}") as refused:
        client.publish_weights("tiny", directory=str(directory), version=1)
    assert refused.value.status == 409


def test_a_model_is_paused_and_goes_on(client: Client) -> None:
    assert client.pause_model("tiny", reason="to look", drain=True).paused
    assert client.model("tiny").reason == "to look"
    assert not client.resume_model("tiny").paused


def test_health_names_the_models(client: Client) -> None:
    health = client.health()
    assert health.status == "ok"
    assert "tiny" in str(health.models)


def test_a_model_that_is_not_there_is_refused_by_name(client: Client) -> None:
    with pytest.raises(RefusedError, match="other"):
        client.model("other")
    with pytest.raises(FulguriteError, match="one of directory, adapter and kept"):
        client.publish_weights("tiny")
