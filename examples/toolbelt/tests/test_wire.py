"""The same server over stdio and over streamable HTTP."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from belt import Belt
from connection import Limits
from office.world import World
from stdio_transport import StdioTransport


def named(name):
    return json.dumps({"name": name})


class OverTheWire(unittest.TestCase):
    def test_stdio_and_streamable_http_say_the_same(self):
        here = str(Path(__file__).resolve().parents[1])
        with tempfile.TemporaryDirectory() as directory:
            line = [sys.executable, "-m", "office.serve", "rooms", "--world", directory]
            World(directory).write_json("rooms.json", {"Alder": {"seats": 4, "booked": {}}})
            http = subprocess.Popen([*line, "--http"], cwd=here, stdout=subprocess.PIPE, text=True)
            self.addCleanup(http.wait)
            self.addCleanup(http.kill)
            self.addCleanup(http.stdout.close)
            targets = [StdioTransport(line, cwd=here, greatest_line=1 << 20), http.stdout.readline().strip()]
            told = []
            for target in targets:
                belt = Belt({"rooms": target}, Limits())
                belt.open()
                self.assertEqual(belt.servers, ["rooms"], belt.connections["rooms"].fault)
                for name in ("rooms_list", "rooms_book"):
                    belt.call("toolbelt_add_tool", named(name))
                wrong = belt.call("rooms_book", '{"room": "Oak", "day": "2026-03-02", "time": "9", "title": "x"}')
                told.append((belt.call("toolbelt_list_tools", ""), belt.call("rooms_list", "{}"), wrong))
                belt.close()
            self.assertEqual(told[0], told[1])
            self.assertEqual(told[0][1:], ("Alder: 4 seats", "error: rooms_book: '9' is no time: write it like 09:30"))


if __name__ == "__main__":
    unittest.main()
