"""Coefficients by TRL's own `AdaptiveKLController` over pinned distances.

    python3 tests/vectors/trl/adaptive_kl.py TRL [FILE]    # a directory with trl 0.11.4 unpacked; writes adaptive_kl.json

The class stands in `trl/trainer/utils.py`, whose imports need more than it does: it is compiled alone, with numpy.
"""

import ast
import json
import pathlib
import sys

import numpy

CASES = [
    {"init_kl_coef": 0.2, "target": 6.0, "horizon": 10000, "n_steps": 256, "current": [0.5, 4.0, 6.0, 6.6, 9.0, 30.0]},
    {"init_kl_coef": 0.05, "target": 0.1, "horizon": 64, "n_steps": 48, "current": [0.0, 0.09, 0.11, 0.4, -0.2, 0.13]},
    {"init_kl_coef": 1.5, "target": 0.02, "horizon": 20, "n_steps": 8, "current": [0.021, 0.019, 0.024, 0.016] * 3},
]


def controller(trl):
    tree = ast.parse((pathlib.Path(trl) / "trl/trainer/utils.py").read_text(encoding="utf-8"))
    named = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "AdaptiveKLController"]
    names = {"np": numpy}
    exec(compile(ast.Module(named, []), "utils.py", "exec"), names)
    return names["AdaptiveKLController"]


def main(trl, file=pathlib.Path(__file__).with_name("adaptive_kl.json")):
    made = controller(trl)
    for case in CASES:
        one = made(case["init_kl_coef"], case["target"], case["horizon"])
        case["value"] = []
        for current in case["current"]:
            one.update(current, case["n_steps"])
            case["value"].append(float(one.value))
    text = json.dumps({"trl": "0.11.4", "cases": CASES}, indent=1)
    pathlib.Path(file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
