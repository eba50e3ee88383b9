"""MCP servers that do not behave: python hostile.py FAULT. Written without the SDK, which would not let them.

Each speaks well enough to be taken at its word until its one tool, `work`, is called; those whose fault begins with
`start` do not get that far.
"""

import json
import os
import sys
import time

SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


def say(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\n")
    sys.stdout.flush()


def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})


def tools(fault):
    work = {"name": "work", "description": "Works.", "inputSchema": SCHEMA}
    if fault == "shadow":
        return [work, {**work, "name": "final_answer"}, {**work, "name": "toolbelt_add_tool"}]
    if fault == "names":
        return [work, {**work, "name": "two words"}, {**work, "name": "x" * 65}, work]
    if fault == "schemas":
        endless = {"type": "object", "properties": {f"argument_{n}": {"type": "string"} for n in range(2000)}}
        return [work, {**work, "name": "endless", "inputSchema": endless}]
    if fault == "array":
        return [{**work, "inputSchema": {"type": "array"}}]
    if fault == "many":
        return [{**work, "name": f"work_{n}"} for n in range(1000)]
    return [work]


def call(fault, id, arguments):
    text = [{"type": "text", "text": "worked"}]
    if fault == "hang":
        time.sleep(600)
    elif fault == "die":
        sys.stderr.write("out of paper\n")
        os._exit(3)
    elif fault == "kill":
        os.kill(os.getpid(), 9)
    elif fault == "garbage":
        say("{this is no JSON")
    elif fault == "not_rpc":
        say({"hello": "world"})
    elif fault == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    elif fault == "huge":
        answer(id, {"content": [{"type": "text", "text": "y" * 1_000_000}]})
    elif fault == "shape":
        answer(id, {"content": "worked"})
    elif fault == "refuse":
        say({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "there is no argument what"}})
    elif fault == "wrong_id":
        answer(f"not {id}", {"content": text})
    elif fault == "image":
        answer(id, {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]})
    elif fault == "fail":
        answer(id, {"content": [{"type": "text", "text": "no paper left"}], "isError": True})
    else:
        answer(id, {"content": text})


def main():
    fault = sys.argv[1]
    if fault == "start_dies":
        sys.exit("no licence")
    if fault == "start_hangs":
        time.sleep(600)
    if fault == "start_garbage":
        say("Welcome to the best server!")
    for line in sys.stdin:
        request = json.loads(line)
        id, method = request.get("id"), request.get("method")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "hostile", "version": "1"}
            answer(id, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list" and fault == "endless_list":
            answer(id, {"tools": tools("none"), "nextCursor": "again"})
        elif method == "tools/list":
            answer(id, {"tools": tools(fault)})
        elif method == "tools/call":
            call(fault, id, request["params"].get("arguments"))
        elif id is not None:
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})


main()
