"""Says how to get the model, where it is not there yet."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
# The script makes the model beside itself: here, where a recipe was written out, or in the example that has it.
SCRIPT = next(filter(Path.exists, [HERE / "smollm2.py", HERE.parent / "hello" / "smollm2.py"]), Path("smollm2.py"))
MODEL = SCRIPT.parent / "models/SmolLM2-135M-Instruct"


def say_how_to_get_it(model=MODEL):
    if not model.exists():
        print(f"{model} is not there: python3 {SCRIPT} makes it")
