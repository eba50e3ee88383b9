"""A model whose turns are a list of tool calls, in the dialects of Anthropic's Messages and OpenAI's Responses.

usage: scripted_model.py TURNS READY_FILE. TURNS is a JSON list of [tool, arguments]; the tools are those of the MCP server
`fulgurite`. After the last of them the model says "Done.". What each turn was told of the one before it goes to standard output,
a JSON object a line.
"""

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TURNS = json.loads(Path(sys.argv[1]).read_text())
results = {}


def text_of(content):
    """The text of a tool's result."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def note(number, content):
    if number and number not in results:
        results[number] = text_of(content)
        print(json.dumps({"tool": TURNS[number - 1][0], "text": results[number]}), flush=True)


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(json.dumps({"data": [], "models": []}).encode(), "application/json")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.startswith("/v1/messages/count_tokens"):
            return self.reply(b'{"input_tokens": 10}', "application/json")
        if self.path.startswith("/v1/messages"):
            return self.answer_in_messages(request)
        if self.path.startswith("/v1/responses"):
            return self.answer_in_responses(request)
        self.send_error(404)

    def reply(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def events(self, events):
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply(lines.encode(), "text/event-stream")

    def answer_in_messages(self, request):
        tools = {tool["name"] for tool in request.get("tools", [])}
        blocks = [b for m in request["messages"] if isinstance(m["content"], list) for b in m["content"]]
        own = {b["id"] for b in blocks if b["type"] == "tool_use" and b["name"].startswith("mcp__fulgurite__")}
        results = [b for b in blocks if b["type"] == "tool_result" and b["tool_use_id"] in own]
        message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": request["model"]}
        usage = {"input_tokens": 10, "output_tokens": 5}
        name = f"mcp__fulgurite__{TURNS[len(results)][0]}" if len(results) < len(TURNS) else None
        if results:
            note(len(results), results[-1].get("content"))
        called = None
        if name in tools:
            called = (name, TURNS[len(results)][1])
        elif name and "ToolSearch" in tools:
            # It shows tools of MCP servers once the model asks for them.
            wanted = ",".join(sorted({f"mcp__fulgurite__{tool}" for tool, _ in TURNS}))
            called = ("ToolSearch", {"query": f"select:{wanted}", "max_results": 20})
        if called:
            block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:20]}", "name": called[0], "input": {}}
            delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(called[1])}, "tool_use"
        else:
            block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn"
        if not request.get("stream"):
            content = {**block, "input": called[1]} if called else {"type": "text", "text": "Done."}
            body = {**message, "content": [content], "stop_reason": stop, "stop_sequence": None, "usage": usage}
            return self.reply(json.dumps(body).encode(), "application/json")
        start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        self.events([
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ])

    def answer_in_responses(self, request):
        outputs = [item for item in request["input"] if item.get("type") == "function_call_output"]
        if outputs:
            note(len(outputs), outputs[-1]["output"])
        item = {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
        if len(outputs) < len(TURNS):
            tool, arguments = TURNS[len(outputs)]
            called = self.named(request.get("tools", []), tool)
            if called:
                item = {"type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex}",
                        "status": "completed", "arguments": json.dumps(arguments), **called}
        response = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "status": "completed", "model": "m",
                    "output": [item], "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                                                "input_tokens_details": {"cached_tokens": 0},
                                                "output_tokens_details": {"reasoning_tokens": 0}}}
        self.events([
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ])

    @staticmethod
    def named(tools, tool):
        """How a call of a tool is written: of a namespace, or by one name."""
        for declared in tools:
            if declared.get("type") == "namespace" and "fulgurite" in declared["name"]:
                for inner in declared["tools"]:
                    if inner["name"] == tool or inner["name"].endswith(f"__{tool}"):
                        return {"name": inner["name"], "namespace": declared["name"]}
            elif declared.get("name", "").endswith(f"fulgurite__{tool}"):
                return {"name": declared["name"]}
        return None


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
Path(sys.argv[2]).write_text(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
