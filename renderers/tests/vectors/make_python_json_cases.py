"""What Python's json module makes of texts that are JSON, or nearly: `python_json.json` (Python 3.11)."""
import json
import pathlib
import random

SEEDS = [
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": [1, -2.50, 3e10, 1E-7, true, false, null]}}',
    '{"a": "\\u00e9\\n\\t\\"\\\\\\/\\b\\f\\r \\ud83d\\ude42 \\ud800 é 🙂"}', "[]", "{}", '[[], {}, ""]', "NaN", "-Infinity",
    "[Infinity, -0, 0.0, -0.0, 1e400, 123456789012345678901234567890, 1.0e5, 1e16, 0.0001]", '{"a": 1, "b": 2, "a": 3}',
    "\n {\n  \"x\": [1,\n 2] }\n", '"text"', "tru", "-", "01", "1.", "1e", "1.e5", "\ufeff{}", "", " ", '{"a" 1}', "{'a': 1}",
    '["\\x"]', '["\\u12g4"]', '["\\u123', '["\\u1234', '["\\', '["a\nb"]', '{"a": 1,}', "[1,]", "[1 2]", "{} {}", "+1",
    '"\\ud83d\\u12"', '"\\ud83d\\u123x"', '"\\ud83d\\ude42"x', "nul", "[-Infinit]", "\x7f", '"\x7f"',
]
ALPHABET = '{}[]",:\\ \n0123456789.eE+-truefalsnN"u"dé🙂\x01\t'


def case(text):
    try:
        return {"text": text, "dumps": json.dumps(json.loads(text))}
    except json.JSONDecodeError as error:
        return {"text": text, "error": str(error)}


def mutated(text, generator):
    characters = list(text)
    for _ in range(generator.randint(1, 3)):
        at = generator.randint(0, len(characters))
        match generator.randint(0, 3):
            case 0:
                del characters[at:]
            case 1:
                characters.insert(at, generator.choice(ALPHABET))
            case 2:
                characters[at:at + 1] = generator.choice(ALPHABET)
            case 3:
                del characters[at:at + 1]
    return "".join(characters)


generator = random.Random(1)
texts = list(SEEDS) + [mutated(generator.choice(SEEDS), generator) for _ in range(1200)]
texts += ["".join(generator.choices(ALPHABET, k=generator.randint(1, 12))) for _ in range(300)]
out = pathlib.Path(__file__).with_name("python_json.json")
lines = [json.dumps(case(text)) for text in dict.fromkeys(texts)]
out.write_text("[\n" + ",\n".join(lines) + "\n]\n")
