"""The same server over stdio and over streamable HTTP."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from belt import Belt
from connection import Limits
from office.serve import server
from office.world import World
from stdio_transport import StdioTransport

HERE = str(Path(__file__).resolve().parents[1])


def named(name):
    return json.dumps({"name": name})


class OverTheWire(unittest.TestCase):
    def test_stdio_and_streamable_http_say_the_same(self):
        with tempfile.TemporaryDirectory() as directory:
            line = [sys.executable, "-m", "office.serve", "rooms", "--world", directory]
            World(directory).write_json("rooms.json", {"Alder": {"seats": 4, "booked": {}}})
            http = subprocess.Popen([*line, "--http"], cwd=HERE, stdout=subprocess.PIPE, text=True)
            self.addCleanup(http.wait)
            self.addCleanup(http.kill)
            self.addCleanup(http.stdout.close)
            targets = [StdioTransport(line, cwd=HERE, greatest_line=1 << 20), http.stdout.readline().strip()]
            results = []
            for target in targets:
                belt = Belt({"rooms": target}, Limits())
                belt.open()
                self.assertEqual(belt.servers, ["rooms"], belt.connections["rooms"].fault)
                for name in ("rooms_list", "rooms_book"):
                    belt.call("toolbelt_add_tool", named(name))
                wrong = belt.call("rooms_book", '{"room": "Oak", "day": "2026-03-02", "time": "9", "title": "x"}')
                results.append((belt.call("toolbelt_list_tools", ""), belt.call("rooms_list", "{}"), wrong))
                belt.close()
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0][1:], ("Alder: 4 seats", "error: rooms_book: '9' is no time: write it like 09:30"))

    def test_a_server_over_http_that_is_killed_is_told_of_and_the_others_go_on(self):
        with tempfile.TemporaryDirectory() as directory:
            World(directory).write_json("rooms.json", {"Alder": {"seats": 4, "booked": {}}})
            line = [sys.executable, "-m", "office.serve", "rooms", "--world", directory, "--http"]
            http = subprocess.Popen(line, cwd=HERE, stdout=subprocess.PIPE, text=True)
            self.addCleanup(http.stdout.close)
            belt = Belt({"rooms": http.stdout.readline().strip(), "good": server("good", [])}, Limits(call_seconds=60))
            self.addCleanup(belt.close)
            belt.open()
            belt.call("toolbelt_add_tool", named("rooms_list"))
            self.assertEqual(belt.call("rooms_list", "{}"), "Alder: 4 seats")
            http.kill()
            http.wait()
            results = [belt.call("rooms_list", "{}") for _ in range(2)]
            self.assertEqual(results[0], "error: the server rooms closed the connection")
            self.assertTrue(results[1].startswith("error: the server rooms is gone: "), results)
            self.assertEqual(belt.servers, ["good"])
            self.assertIn("(the server rooms is gone: ", belt.call("toolbelt_list_tools", ""))

    def test_a_server_over_http_ends_once_its_world_is_gone(self):
        directory = tempfile.mkdtemp()
        line = [sys.executable, "-m", "office.serve", "rooms", "--world", directory, "--http"]
        http = subprocess.Popen(line, cwd=HERE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(http.stdout.close)
        self.addCleanup(http.kill)
        self.assertTrue(http.stdout.readline().startswith("http://127.0.0.1:"))
        Path(directory).rmdir()
        self.assertEqual(http.wait(300), 0)


if __name__ == "__main__":
    unittest.main()
