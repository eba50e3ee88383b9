"""What tinker-cookbook renders: conversations with tools (`cookbook_tools/*.json`), the prompts and examples of
`cookbook/*.json`, and its table of models (`recommended_renderers.json`).

    python make_cookbook_cases.py          # needs tinker-cookbook 0.6.1 and transformers

Beside the cases of `cookbook/` these hold what agents do: loops of calls, parallel calls, calls without ids, results
without names, reasoning between calls, schemas that nest. Each is rendered with the small tokenizers of `tokenizers/`.
"""

import json
import logging
import warnings
from pathlib import Path

from tinker_cookbook import model_info
from tinker_cookbook.renderers import ToolCall, ToolSpec, TrainOnWhat, get_renderer
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).parent
OUT = HERE / "cookbook_tools"

RENDERERS = {
    "llama3": ["llama3"],
    "qwen3": [
        "role_colon", "qwen3", "qwen3_disable_thinking", "qwen3_instruct", "qwen3_5", "qwen3_5_preserve_thinking",
        "qwen3_8_low_reasoning", "nemotron3", "nemotron3_ultra",
    ],
    "deepseek": [
        "deepseekv3", "deepseekv3_thinking", "deepseekv3_thinking#strip=False", "deepseekv4_1", "deepseekv4_1_low_reasoning",
        "deepseekv4_1_max_reasoning", "deepseekv4_1_disable_thinking", "deepseekv4_1_preserve_thinking",
    ],
    "kimi": ["kimi_k2", "kimi_k25", "kimi_k25_disable_thinking", "kimi_k26_preserve_thinking"],
    "gpt_oss": ["gpt_oss_no_sysprompt", "gpt_oss_low_reasoning"],
    "glm": ["glm5_3_max_reasoning", "glm5_3_high_reasoning", "glm5_3_low_reasoning"],
}
# Cases that only some renderers have.
ONLY = {
    "space_around_parts": ("qwen3_5", "qwen3_8", "glm5_3"),
    "results_out_of_order": ("glm5_3", "deepseekv4_1"),
    "results_of_other_calls": ("glm5_3", "deepseekv4_1"),
    "arguments_of_every_kind": ("glm5_3", "deepseekv4_1"),
    "arguments_no_object": ("glm5_3", "deepseekv4_1"),
    "reasoning_in_text": ("glm5_3", "deepseekv4_1"),
    "bare_result": ("glm5_3", "deepseekv4_1"),
    "call_and_no_result": ("glm5_3", "deepseekv4_1"),
    "tools_deferred": ("glm5_3", "deepseekv4_1"),
    "arguments_written_twice": "deepseekv4_1",
    "results_among_users": "deepseekv4_1",
    "system_before_answer": "deepseekv4_1",
    "system_and_assistant": "deepseekv4_1",
    "system_alone": "deepseekv4_1",
    "line_breaks_of_system": "deepseekv4_1",
    "control_tokens_in_text": "deepseekv4_1",
    "tools_and_reasoning": "deepseekv4_1",
}
# What is sampled of renderers whose results have no file in `cookbook/`.
CALLS = ("\n\n<｜DSML｜ calls>\n", "\n</｜DSML｜ calls>")
INVOKE = ('<｜DSML｜ invoke name="f">\n', "\n</｜DSML｜ invoke>")
EOS = "<｜end▁of▁sentence｜>"


def parameter(key, value, is_string):
    return f'<｜DSML｜ parameter name="{key}" string="{is_string}">{value}</｜DSML｜ parameter>'


def invoke(*parameters):
    return INVOKE[0] + "\n".join(parameters) + INVOKE[1]


def section(*calls):
    return CALLS[0] + "\n".join(calls) + CALLS[1]


ONE, TWO = parameter("a", "1", "false"), parameter("b", ' é\n"', "true")
CALL = "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"
SAMPLED = {
    "glm5_3": [
        "Hello.<|user|>", "Hello.<|endoftext|>", "Hello truncated", "reason</think>Hello.<|user|>",
        "<think>reason</think>Hello.<|user|>", "</think>Hello.<|user|>", "reason</think>cut", "reason<|user|>", "<|user|>",
        "r</think>a<|user|>b<|user|>", "r</think>a<|observation|><|endoftext|>",
        f"r</think>{CALL}<|observation|>", f"r</think>say {CALL}{CALL}<|observation|>", f"{CALL}<|observation|>",
        "</think><tool_call>ping</tool_call><|observation|>", "</think><tool_call>\n ping \n</tool_call>\n<|observation|>",
        "</think><tool_call>get.we-a_ther\n<arg_key> city </arg_key>\n<arg_value> Paris </arg_value>\n"
        "<arg_key>days</arg_key><arg_value> 2 </arg_value></tool_call><|observation|>",
        '</think><tool_call>f<arg_key>a</arg_key><arg_value>{"x": [1, 2.50, null, "é"]}</arg_value><arg_key>b</arg_key>'
        "<arg_value>é\n{</arg_value><arg_key>a</arg_key><arg_value>true</arg_value></tool_call><|observation|>",
        "</think><tool_call>f<arg_key>a</arg_key>x<arg_value>1</arg_value></tool_call><|observation|>",
        "</think><tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>x</tool_call><|observation|>",
        "</think><tool_call>f x<arg_key>a</arg_key><arg_value>1</arg_value></tool_call><|observation|>",
        "</think><tool_call>f<arg_key> </arg_key><arg_value>1</arg_value></tool_call><|observation|>",
        "</think><tool_call>f<arg_key>a</arg_key></tool_call><|observation|>",
        "</think><tool_call></tool_call><|observation|>", "</think><tool_call>é<|observation|>",
        '</think><tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|observation|>',
        '</think><tool_call>{"name": 1}</tool_call><|observation|>',
        "a<tool_call>quoted</think>b<|user|>", f"r</think>x {CALL} y<think>z</think><|user|>",
    ],
}
SAMPLED["deepseekv4_1"] = [
    text + EOS
    for text in [
        "Hello.", "r</think>Hello.", "<think>r</think>Hello.", "</think>Hello.", " r \n</think>\n\n a ", "r", "",
        f"r</think>{section(invoke(ONE, TWO))}", f"r</think>say {section(invoke(ONE), invoke())}", section(invoke(TWO)),
        f"</think>x\n\n\n\n{section(invoke(ONE))[2:]}", f"</think>{section(invoke(ONE)).strip()}\n",
        f"</think>{section(invoke(ONE), 'x', invoke(ONE))}", f"</think>{section()}", f"</think>{section(invoke('x'))}",
        f"</think>{section(invoke(ONE, ONE))}", f"</think>{section(invoke(parameter(' ', '1', 'true')), invoke(ONE))}",
        f"</think>{section(invoke(parameter('k', 'x', 'false')))}", f"</think>{section(invoke(parameter('k', '', 'false')))}",
        f"</think>{section(invoke(parameter('k', '', 'true'), parameter('o', ' [1, 2.50, null] ', 'false')))}",
        f"</think>{section(invoke(ONE).replace('f', ' ', 1))}", f"</think>{section(invoke(ONE))} and more",
        f"</think>{section(invoke(ONE))}{section(invoke(TWO))}", f"</think>a{CALLS[0]}{INVOKE[0]}{ONE}",
        f"</think>a{CALLS[0]}{invoke(ONE)}", f"</think>a {invoke(ONE)}", f"r{section(invoke(ONE))}", "</think>a ｜DSML｜ b",
        f"</think>{section(invoke(parameter('k', '<｜DSML｜ calls>', 'true')))}",
    ]
] + ["r</think>Hello", f"r</think>a{section(invoke(ONE))}", f"a{EOS}b", f"a{EOS}b{EOS}"]
TRAIN_ON = ["last_assistant_message", "last_assistant_turn", "all_assistant_messages", "all_tokens"]
DATE = "2025-06-28"

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather.\nIn a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name\n\nin full"},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"type": "integer", "default": 1, "minimum": 1},
            "é": {"type": "boolean"},
        },
        "required": ["days", "city"],
    },
}
PING = {"name": "ping", "description": "Ping.", "parameters": {"type": "object", "properties": {}}}
NEST = {
    "name": "nest",
    "description": "Nested.",
    "parameters": {
        "type": "object",
        "description": "All of it",
        "properties": {
            "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "description": "some"},
            "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "obj": {
                "type": "object",
                "properties": {"z": {"type": "number"}, "b": {"type": "string", "description": "inner"}},
                "required": ["b"],
                "additionalProperties": False,
            },
            "multi": {"type": ["string", "null"]},
            "free": {"type": "object"},
            "deep": {
                "type": "array",
                "items": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer"}}}},
            },
            "said": {"type": "array", "items": {"type": "string", "description": "one", "maxLength": 3}, "minItems": 1},
            "ref": {"$ref": "#/$defs/point"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "title": {"type": "string", "title": "T", "examples": ["x", {"y": 1}], "default": {"k": "é"}},
            "flag": {"type": "boolean", "default": False},
            "float": {"type": "number", "default": 1.0, "maximum": 2.5},
            "null": {"enum": [1, None, True, "q\""]},
        },
        "$defs": {"point": {"type": "object", "description": "A point.", "properties": {"x": {"type": "number"}}}},
        "required": ["list"],
    },
}
TREE = {
    "name": "tree",
    "description": "",
    "parameters": {"type": "object", "properties": {"b": {"type": "string"}, "a": {"$ref": "#"}}, "required": ["b"]},
}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(content, *calls):
    message = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(name, arguments, call_id=None):
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def tool(content, **fields):
    return {"role": "tool", "content": content, **fields}


def thinking(text):
    return {"type": "thinking", "thinking": text}


def text(text):
    return {"type": "text", "text": text}


def ping(index):
    return {"tool_call_id": f"functions.ping:{index}", "name": "ping"}


MESSAGES = {
    "loop_two_rounds": [
        user("go"),
        assistant([thinking("r1"), text("")], call("get_weather", '{"city":"P"}', "functions.get_weather:0")),
        tool("20C", tool_call_id="functions.get_weather:0", name="get_weather"),
        assistant([thinking("r2")], call("ping", "{}", "functions.ping:1")),
        tool("pong", **ping(1)),
        assistant([thinking("r3"), text("fin")]),
        user("next"),
        assistant([thinking("r4"), text("ok")], call("ping", "{}", "c")),
        tool("p", tool_call_id="c", name="ping"),
    ],
    "parallel_then_answer": [
        system("sys"),
        user("both"),
        assistant(
            [thinking("two"), text("say")], call("a", "{}", "functions.a:0"), call("b", '{"x":[1,2]}', "functions.b:1")
        ),
        tool("1", tool_call_id="functions.a:0", name="a"),
        tool("2", tool_call_id="functions.b:1", name="b"),
        assistant([thinking("fin"), text("1 and 2")]),
    ],
    "interrupted_loop": [
        user("a"),
        assistant("", call("ping", "{}", "functions.ping:0")),
        tool("pong", **ping(0)),
        user("interrupt"),
        assistant([thinking("k"), text("v")]),
    ],
    "ends_in_calls": [user("go"), assistant([thinking("r"), text("pre")], call("ping", '{"a": "é\\n"}', "i"))],
    "ends_in_bare_calls": [user("go"), assistant("", call("ping", "{}"), call("get_weather", '{"city": "Paris"}'))],
    "ends_in_thought": [user("go"), assistant([thinking("only")])],
    "ends_in_thinking_string": [user("go"), assistant("<think>\nr\n</think>\n\nans")],
    "ends_empty": [user("go"), assistant("")],
    "text_parts": [system("sys"), user("go"), assistant([text("ans")]), user("more"), assistant("x"), user("z")],
    "interleaved": [
        user("go"),
        assistant([text("a"), thinking("b"), text("c"), thinking("d"), text("e")]),
        user("more"),
        assistant([thinking("b"), text("c"), thinking("d"), text("e")]),
    ],
    "two_assistants": [user("go"), assistant("a"), assistant("b"), user("c"), assistant([thinking("t"), text("d")])],
    "starts_with_assistant": [assistant("hello"), user("hi"), assistant("yes")],
    "tool_without_name": [user("go"), assistant("x", call("ping", "{}", "c1")), tool("pong", tool_call_id="c1")],
    "tool_without_id": [user("go"), assistant("x", call("ping", "{}", "c1")), tool("pong", name="ping"), assistant("k")],
    "tool_part": [
        user("go"),
        assistant("x", call("ping", "{}", "c1")),
        tool([text("pong")], tool_call_id="c1", name="ping"),
        assistant([thinking("q"), text("ok")]),
    ],
    "mid_system": [system("one"), user("go"), assistant("a"), system("two"), user("b")],
    "developer": [{"role": "developer", "content": "dev"}, user("go")],
    "space_around_parts": [
        system([text("  be "), text(" kind \n")]),
        user([text(" "), text("\n go "), text("on "), text("\t")]),
        assistant([text(" "), thinking(" r "), text("\n a "), text(" b \n")]),
        user([text(" more ")]),
        assistant([thinking(" s "), text(" x ")], call("ping", "{}", "functions.ping:0")),
        tool([text(" pong "), text(" ")], **ping(0)),
        assistant([text(" "), text("\n")]),
    ],
    "results_out_of_order": [
        user("go"),
        assistant("", call("a", "{}", "1"), call("b", "{}", "2"), call("c", "{}", "3")),
        tool("of 3", tool_call_id="3"),
        tool([text("of "), text("1")], tool_call_id="1"),
        assistant("ok", call("a", "{}", "1"), call("b", "{}", "2")),
        tool("of 2", tool_call_id="2"),
        tool("of 1", tool_call_id="1"),
        user("and"),
        assistant([thinking(""), text("end")]),
    ],
    "results_of_other_calls": [
        user("go"),
        assistant("", call("a", "{}", "1"), call("b", "{}", "2")),
        tool("x", tool_call_id="2"),
        tool("y", tool_call_id="9"),
        assistant("", call("a", "{}", "1"), call("b", "{}", "1")),
        tool("x", tool_call_id="1"),
        tool("y", tool_call_id="1"),
        assistant("", call("a", "{}"), call("b", "{}", "2")),
        tool("x", tool_call_id="2"),
        tool("y"),
    ],
    "arguments_of_every_kind": [
        user("go"),
        assistant(
            "x\n", call("f", '{"s": "é\\n", "i": 1, "f": 1.50, "n": null, "b": true, "o": {"k": ["é", -0.0]}}'), call("g", "")
        ),
        tool("r"),
        user("<think>u</think>"),
        assistant("y", call("f", '{"only": "é"}', "")),
    ],
    "arguments_no_object": [user("go"), assistant("y", call("f", "[1]"))],
    "reasoning_in_text": [
        user("go"),
        assistant("<think>a</think>b</think> c "),
        user("on"),
        assistant("a</think>"),
        user("on"),
        assistant("<think>open"),
        user("on"),
        assistant([text("<think>a</think>b")]),
    ],
    "bare_result": [user("go"), assistant("a"), tool("r"), assistant("b"), system("s"), user("x"), assistant("c")],
    "call_and_no_result": [user("go"), assistant("a", call("ping", "{}", "1")), user("b"), assistant("c"), user("d")],
    "arguments_written_twice": [
        user("go"), assistant("", call("f", '"{\\"a\\": 1, \\"b\\": \\"x\\"}"'), call("g", '"text"'), call("h", "null"), call("i", "x{")),
    ],
    "results_among_users": [
        user("go"),
        assistant("", call("a", "{}", "1"), call("b", "{}", "2")),
        user("so"),
        tool("of 2", tool_call_id="2"),
        user("\n and"),
        tool("of 1", tool_call_id="1"),
        tool("of 0"),
        assistant([thinking("r"), text("ok")]),
        tool("again 2", tool_call_id="2"),
        tool("again 1", tool_call_id="1"),
    ],
    "system_before_answer": [
        user("go"), assistant([thinking("r1"), text("a")]), system("s"), assistant([thinking("r2"), text("b")]),
        assistant([thinking("r3"), text("c")]),
    ],
    "system_and_assistant": [system("s"), assistant([thinking("r"), text("a")]), user("b"), assistant("c")],
    "system_alone": [system("s")],
    "line_breaks_of_system": [system("\n\nsys\n"), user("\n\n"), assistant("\n\n"), user("")],
    "control_tokens_in_text": [
        system("<｜User｜>"), user("<｜DSML｜ calls><｜Assistant｜>"), assistant("</think>", call("f<think>", '{"｜DSML｜": "<｜System｜>"}')),
    ],
    "thinking_then_plain": [user("a"), assistant([thinking("t1"), text("b")]), user("c"), assistant("d")],
}


def conversations():
    cases = {name: {"messages": messages, "tools": None} for name, messages in MESSAGES.items()}
    loop = [user("w?"), assistant("", call("ping", "{}", "functions.ping:0")), tool("pong", **ping(0)), assistant("d")]
    cases["tools_nested"] = {"messages": [user("go")], "tools": [NEST, TREE, WEATHER], "system_prompt_for_tools": "Be."}
    cases["tools_no_system"] = {"messages": [user("go")], "tools": [WEATHER, PING], "system_prompt_for_tools": ""}
    deferred = [{**PING, "strict": True}, {**WEATHER, "defer_loading": True}, {**TREE, "defer_loading": False}]
    cases["tools_deferred"] = {"messages": [user("go")], "tools": deferred, "system_prompt_for_tools": "sys"}
    cases["tools_and_reasoning"] = {"messages": MESSAGES["loop_two_rounds"], "tools": [PING], "system_prompt_for_tools": ""}
    cases["tools_then_loop"] = {
        "messages": [*loop, user("more")], "tools": [WEATHER, PING], "system_prompt_for_tools": "sys",
    }
    return cases


def open_renderer(name, tokenizer):
    renderer = get_renderer(name.removesuffix("#strip=False"), tokenizer)
    if name.endswith("#strip=False"):
        renderer.strip_thinking_from_history = False
    if name.startswith("gpt_oss"):
        renderer.current_date = DATE
    return renderer


def read(case, renderer, end=None):
    messages = []
    for message in case["messages"][:end]:
        calls = [ToolCall(**call) for call in message.get("tool_calls", [])]
        messages.append({**message, "tool_calls": calls} if calls else dict(message))
    if case["tools"]:
        tools = [ToolSpec(**tool) for tool in case["tools"]]
        messages = renderer.create_conversation_prefix_with_tools(tools, case["system_prompt_for_tools"]) + messages
    return messages


def example(renderer, tokens, weights):
    runs = []
    for token, weight in zip(tokens.to_ints(), weights.tolist(), strict=True):
        if not runs or runs[-1][0] != weight:
            runs.append([float(weight), []])
        runs[-1][1].append(token)
    decode = renderer.tokenizer.decode
    return {"segments": [[weight, decode(run)] for weight, run in runs], "n_tokens": len(tokens.to_ints())}


def or_error(make, longest=120):
    try:
        return make()
    except Exception as error:  # Whatever the cookbook raises is its answer.
        return {"error": type(error).__name__, "message": str(error)[:longest]}


def render(renderer, cases):
    prompts, supervised = {}, {}
    for name, case in cases.items():
        prompts[name] = or_error(
            lambda case=case: {"ids": renderer.build_generation_prompt(read(case, renderer)).to_ints()}
        )
        last = max((i for i, message in enumerate(case["messages"]) if message["role"] == "assistant"), default=None)
        for mode in TRAIN_ON if last is not None else []:
            supervised[f"{name}:{mode}"] = or_error(
                lambda case=case, mode=mode, last=last: [
                    example(renderer, tokens, weights)
                    for tokens, weights in renderer.build_supervised_examples(
                        read(case, renderer, last + 1), train_on_what=TrainOnWhat(mode)
                    )
                ]
            )
    return {"generation_prompt": prompts, "supervised_examples": supervised}


def parse(renderer, sampled):
    ids = renderer.tokenizer.encode(sampled, add_special_tokens=False)

    def result():
        message, termination = renderer.parse_response(ids)
        calls = {
            key: [one.model_dump(mode="json") for one in message[key]]
            for key in ("tool_calls", "unparsed_tool_calls") if key in message
        }
        return {"message": {**message, **calls}, "termination": termination.value}

    return {"text": sampled, "ids": ids, "result": or_error(result, longest=None)}


def open_tokenizer(family):
    directory = HERE / "tokenizers" / family
    config = json.loads((directory / "tokenizer_config.json").read_text())
    tokens = {key: config[key] for key in ("bos_token", "eos_token") if config.get(key)}
    return PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"), **tokens)


def refresh_cookbook():
    """Brings the prompts and examples of `cookbook/` up to the installed version; what is equal stays as it is."""
    given = json.loads((HERE / "cookbook" / "conversations.json").read_text())
    cases = {name: {"tools": None, "system_prompt_for_tools": "", **case} for name, case in given.items()}
    for file in sorted((HERE / "cookbook").glob("*.json")):
        vectors = json.loads(file.read_text())
        if "renderer" not in vectors:
            continue
        name, _, keeps = vectors["renderer"].partition("#")
        name = name.split("@")[0] + (f"#{keeps}" if keeps else "")
        renderer = open_renderer(name, open_tokenizer(vectors["tokenizer"].removeprefix("tok_")))
        rendered, changed = render(renderer, cases), False
        for key, expected in vectors["generation_prompt"].items():
            new = rendered["generation_prompt"][key]
            if new.get("ids") != expected.get("ids"):
                decoded = {"decoded": renderer.tokenizer.decode(new["ids"])} if "ids" in new else {}
                vectors["generation_prompt"][key], changed = decoded | new, True
        for key, expected in vectors["supervised_examples"].items():
            new = rendered["supervised_examples"][key]
            # What was an error may have other words since.
            if new != expected and (isinstance(new, list) or isinstance(expected, list)):
                vectors["supervised_examples"][key], changed = new, True
        if changed:
            vectors["has_extension_property"] = renderer.has_extension_property
            file.write_text(json.dumps(vectors, ensure_ascii=False) + "\n")
            print("changed", file.name)


def recommended():
    tables = [
        ("meta-llama", model_info.get_llama_info()), ("Qwen", model_info.get_qwen_info()),
        ("deepseek-ai", model_info.get_deepseek_info()), ("openai", model_info.get_gpt_oss_info()),
        ("moonshotai", model_info.get_moonshot_info()), ("zai-org", model_info.get_zai_info()),
        ("nvidia", model_info.get_nvidia_info()), ("thinkingmachines", model_info.get_thinkingmachines_info()),
    ]
    return {f"{org}/{name}": list(model.recommended_renderers) for org, table in tables for name, model in table.items()}


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    refresh_cookbook()
    (HERE / "recommended_renderers.json").write_text(json.dumps(recommended(), indent=1) + "\n")
    OUT.mkdir(exist_ok=True)
    cases = conversations()
    (OUT / "conversations.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")
    for family, names in RENDERERS.items():
        tokenizer = open_tokenizer(family)
        for name in names:
            head = {"renderer": name, "tokenizer": family, "current_date": DATE}
            file = OUT / f"{name.replace('#strip=False', '__nostrip')}.json"
            fitting = {case: given for case, given in cases.items() if name.startswith(ONLY.get(case, ""))}
            renderer = open_renderer(name, tokenizer)
            rendered = head | render(renderer, fitting)
            sampled = next((texts for family, texts in SAMPLED.items() if name.startswith(family)), None)
            if sampled is not None:
                rendered["parse_response"] = [parse(renderer, text) for text in sampled]
            file.write_text(json.dumps(rendered, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
