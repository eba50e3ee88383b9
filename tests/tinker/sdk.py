"""What the scripts beside this need of every SDK from 0.24 on."""

import inspect
import json
import os
import sys

import numpy

from tinker import types


def ready(client):
    """A client: newer SDKs give a promise of one."""
    return client.result() if hasattr(client, "result") else client


def tensor(values, dtype="float32"):
    return types.TensorData.from_numpy(numpy.array(values, dtype=dtype))


def datum(sequence, **inputs):
    """One that predicts each token of a sequence from those before it."""
    tensors = {"target_tokens": tensor(sequence[1:], "int64")} | {name: tensor(row) for name, row in inputs.items()}
    return types.Datum(model_input=types.ModelInput.from_ints(sequence[:-1]), loss_fn_inputs=tensors)


def logprobs(result):
    return [numpy.array(output["logprobs"].tolist()) for output in result.loss_fn_outputs]


def refusal(call):
    """What is said of a call that is refused."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("it was not refused")


def takes(call, parameter):
    """Whether a call of this SDK has a parameter of this name."""
    return parameter in inspect.signature(call).parameters


def close(service):
    """Older SDKs cannot end a session."""
    if hasattr(service, "close"):
        service.close("success").result()


def tell(found):
    """Prints what was found and ends: threads that older SDKs leave behind can crash an interpreter that is shut down."""
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)
