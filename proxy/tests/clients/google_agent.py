"""An agent that is written with Google's own package and knows nothing of any proxy. It prints what it saw as JSON.
usage: google_agent.py whole|streamed"""

import json
import sys

from google import genai
from google.genai import errors, types

client = genai.Client()
streamed = sys.argv[1] == "streamed"
config = types.GenerateContentConfig(
    system_instruction="Be brief.",
    stop_sequences=["HALT"],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    tools=[
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name="weather",
                    description="Tells the weather.",
                    parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}),
                )
            ]
        )
    ],
)
replies = []


def seen(part):
    if part.function_call:
        return {"call": part.function_call.name, "args": part.function_call.args}
    return {"thought" if part.thought else "text": part.text}


def ask(contents):
    """The parts of the answer, of which texts that follow each other are one."""
    request = {"model": "tiny", "contents": contents, "config": config}
    responses = list(client.models.generate_content_stream(**request)) if streamed else None
    responses = responses or [client.models.generate_content(**request)]
    parts, merged = [], []
    for response in responses:
        for part in response.candidates[0].content.parts:
            parts.append(part)
            new = seen(part)
            if merged and len(new) == 1 and new.keys() == merged[-1].keys():
                merged[-1] = {name: merged[-1][name] + text for name, text in new.items()}
            elif new != {"text": ""} or (response is responses[-1] and not merged):
                merged.append(new)
    last = responses[-1]
    usage = last.usage_metadata
    assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count + (
        usage.thoughts_token_count or 0
    )
    sampled = usage.total_token_count - usage.prompt_token_count
    replies.append([last.candidates[0].finish_reason.name, sampled, merged])
    return types.Content(role="model", parts=parts)


def work(task):
    contents = [types.Content(role="user", parts=[types.Part(text=task)])]
    while True:
        content = ask(contents)
        contents.append(content)
        calls = [part.function_call for part in content.parts if part.function_call]
        if not calls:
            return
        results = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": f"{call.name} {json.dumps(call.args)}"}
                )
            )
            for call in calls
        ]
        contents.append(types.Content(role="user", parts=results))


def failure(contents):
    try:
        ask(contents)
    except errors.APIError as error:
        return [error.code, error.status, error.message]


work("Rain in Paris?")
for _ in range(3):
    ask("Well?")
print(
    json.dumps(
        {
            "replies": replies,
            "models": [model.name for model in client.models.list()],
            "counted": client.models.count_tokens(model="tiny", contents="Well?").total_tokens,
            "too_long": failure("17 " * 4096),
            "broken": failure("Well?"),
        }
    )
)
