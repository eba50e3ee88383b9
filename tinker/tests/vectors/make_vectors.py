"""Writes the messages that tests/tinker_wire.rs reads and writes, as the official SDK has them.

    python3 -m venv venv && venv/bin/pip install tinker==0.38.0
    venv/bin/python make_vectors.py
"""

import json
import pathlib

import numpy as np
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.request_conv import forward_backward_request_to_proto

from tinker import types

HERE = pathlib.Path(__file__).parent


def array(values, dtype):
    return np.asarray(values, dtype=dtype).tobytes()


def write(name, message):
    (HERE / f"{name}.bin").write_bytes(message.SerializeToString(deterministic=True))


def tensor(values, dtype):
    return types.TensorData(data=values, dtype=dtype, shape=[len(values)])


def request(data, loss, config=None, forward_only=False):
    message = forward_backward_request_to_proto(
        types.ForwardBackwardRequest(
            model_id="s:train:0",
            seq_id=7,
            forward_backward_input=types.ForwardBackwardInput(data=data, loss_fn=loss, loss_fn_config=config),
        )
    )
    message.forward_only = forward_only
    return message


policy = types.Datum(
    model_input=types.ModelInput.from_ints([5, 6, 7]),
    loss_fn_inputs={
        "target_tokens": tensor([0, 7, 8], "int64"),
        "logprobs": tensor([0.0, -0.5, -1.25], "float32"),
        "advantages": tensor([0.0, 1.5, -2.0], "float32"),
    },
)
supervised = types.Datum(
    model_input=types.ModelInput.from_ints([5, 6]),
    loss_fn_inputs={"target_tokens": tensor([6, 7], "int64"), "weights": tensor([0.0, 1.0], "float32")},
)
image = types.Datum(
    model_input=types.ModelInput(
        chunks=[
            types.EncodedTextChunk(tokens=[1, 2]),
            types.ImageChunk(data=b"file", format="png", expected_tokens=3),
        ]
    ),
    loss_fn_inputs={
        "target_tokens": types.TensorData(
            data=[9, 4],
            dtype="int64",
            shape=[5, 2],
            sparse_crow_indices=[0, 1, 1, 1, 1, 2],
            sparse_col_indices=[1, 0],
        )
    },
)
write("importance_sampling_request", request([policy, policy], "importance_sampling"))
write("cross_entropy_request", request([supervised], "cross_entropy", forward_only=True))
write("sparse_request", request([image], "ppo", {"clip_low_threshold": 0.8, "how": "text"}))

spans = request([], "stable_reinforce")
datum = spans.data.add()
datum.model_input_spans.add().prompt_tokens.CopyFrom(pb.PromptProvenanceSpan(sequence_id="a", offset=0, length=2))
datum.loss_fn_input_spans.add().sampled_tokens.CopyFrom(pb.SampledProvenanceSpan(sequence_id="a", offset=1, length=3))
write("provenance_request", spans)

write(
    "forward_backward_output",
    pb.ForwardBackwardOutput(
        loss_fn_output_type="ArrayRecord",
        loss_fn_outputs=[
            pb.ArrayRecord(
                type_tag="ArrayRecord",
                fields={
                    "logprobs": pb.BatchedTensor(
                        data=array([-0.5, -1.0, -2.0], np.float32),
                        offsets=array([0, 8, 12], np.int64),
                        dtype=pb.DTYPE_FLOAT32,
                    )
                },
                num_datums=2,
            )
        ],
        metrics={"loss:sum": 2.5},
    ),
)
write(
    "sample_response",
    pb.SampleResponse(
        sequences=[
            pb.SampledSequence(
                stop_reason=pb.STOP_REASON_STOP,
                tokens=array([5, 9], np.int32),
                logprobs=array([-0.5, -0.25], np.float32),
                topk_sampled_logprobs=pb.TopkLogprobs(
                    token_ids=array([5, 6, 9, 0], np.int32),
                    logprobs=array([-0.5, -1.0, -0.25, -99999.0], np.float32),
                    k=2,
                    length=2,
                ),
            ),
            pb.SampledSequence(stop_reason=pb.STOP_REASON_LENGTH, tokens=array([7], np.int32)),
        ],
        prompt_logprobs=array([np.nan, -1.0], np.float32),
        prompt_cache_hit_tokens=1,
        prompt_alt_tokens=pb.PromptAltTokens(
            tokens=pb.Tensor(dense=array([3, 4], np.int32), dtype=pb.DTYPE_INT32, shape=[2, 1]),
            logprobs=pb.Tensor(dense=array([-3.0, -4.0], np.float32), dtype=pb.DTYPE_FLOAT32, shape=[2, 1]),
        ),
    ),
)

BODIES = {
    "create_session": types.CreateSessionRequest(tags=[], user_metadata={"a": 1}, sdk_version="0.38.0"),
    "session_heartbeat": types.SessionHeartbeatRequest(session_id="s"),
    "create_model": types.CreateModelRequest(
        session_id="s", model_seq_id=0, base_model="Qwen/Qwen3-8B", lora_config=types.LoraConfig(rank=32, seed=1)
    ),
    "get_info": types.GetInfoRequest(model_id="s:train:0"),
    "load_weights": types.LoadWeightsRequest(
        session_id="s", model_seq_id=1, path="tinker://s:train:0/weights/a", optimizer=True
    ),
    "unload_model": types.UnloadModelRequest(model_id="s:train:0"),
    "save_weights": types.SaveWeightsRequest(model_id="s:train:0", path="a", seq_id=3, ttl_seconds=60),
    "save_weights_for_sampler": types.SaveWeightsForSamplerRequest(
        model_id="s:train:0", sampling_session_seq_id=0, seq_id=4
    ),
    "create_sampling_session": types.CreateSamplingSessionRequest(
        session_id="s", sampling_session_seq_id=1, base_model="Qwen/Qwen3-8B"
    ),
    "sample": types.SampleRequest(
        sampling_session_id="x",
        seq_id=0,
        num_samples=2,
        prompt=types.ModelInput.from_ints([5, 6, 7]),
        sampling_params=types.SamplingParams(max_tokens=4, seed=1, stop=[2], temperature=0.5, top_k=5, top_p=0.75),
    ),
    "optim_step": types.OptimStepRequest(model_id="s:train:0", seq_id=2, optim_params=types.AdamParams()),
}
bodies = {name: json.loads(body.model_dump_json(exclude_none=True)) for name, body in BODIES.items()}
(HERE / "bodies.json").write_text(json.dumps(bodies, indent=1) + "\n")
