"""Says how to get the model, where it is not there yet."""

from pathlib import Path

MODEL = Path(__file__).resolve().parents[1] / "hello/models/SmolLM2-135M-Instruct"


def say_how_to_get_it(model=MODEL):
    if not model.exists():
        print(f"{model} is not there: python3 examples/hello/smollm2.py makes it")
