"""Whatever a server does, the model is told in words that name it, and the other servers go on."""

import dataclasses
import os
import sys
import time
import unittest
from pathlib import Path

from belt import Belt
from connection import Limits
from office.serve import server
from stdio_transport import StdioTransport

HOSTILE = str(Path(__file__).with_name("hostile.py"))
LIMITS = Limits(greatest_line=2_000_000)


class Faults(unittest.TestCase):
    def belt(self, fault, limits=LIMITS):
        transport = StdioTransport([sys.executable, HOSTILE, fault], greatest_line=limits.greatest_line)
        belt = Belt({"hostile": transport, "good": server("good", [])}, limits)
        self.addCleanup(belt.close)
        belt.open()
        return belt

    def result_of(self, fault, limits=LIMITS, name="work"):
        """What the model is told when it calls the tool, and the belt."""
        belt = self.belt(fault, limits)
        self.assertEqual(belt.call("toolbelt_add_tool", f'{{"name": "{name}"}}'), "added")
        return belt.call(name, '{"what": "it"}'), belt

    def test_a_server_that_behaves_answers(self):
        self.assertEqual(self.result_of("none")[0], "worked")

    def test_a_server_that_ends_is_told_of_with_its_status_and_last_words(self):
        result, belt = self.result_of("die")
        self.assertEqual(result, "error: the server hostile is gone: it ended with status 3: out of paper")
        self.assertEqual(belt.call("work", '{"what": "it"}'), result)
        self.assertEqual(belt.servers, ["good"])
        self.assertIn(
            "(the server hostile is gone: it ended with status 3: out of paper)", belt.call("toolbelt_list_tools", "")
        )

    def test_a_server_that_is_killed_is_told_of(self):
        self.assertEqual(self.result_of("kill")[0], "error: the server hostile is gone: it was ended by signal 9")

    def test_what_is_no_json_rpc_ends_a_server(self):
        for fault in ("garbage", "not_rpc"):
            result = self.result_of(fault)[0]
            self.assertEqual(
                result, "error: the server hostile is gone: it said what is no JSON-RPC, and was ended", fault
            )

    def test_a_line_without_an_end_ends_a_server(self):
        result = self.result_of("flood")[0]
        self.assertEqual(
            result, "error: the server hostile is gone: it said more than 2000000 bytes in one line, and was ended"
        )

    def test_a_server_that_hangs_is_given_up_after_two_calls(self):
        limits = dataclasses.replace(LIMITS, call_seconds=0.2)
        result, belt = self.result_of("hang", limits)
        self.assertEqual(result, "error: the server hostile did not answer within 0.2 s")
        self.assertEqual(belt.call("work", '{"what": "it"}'), result)
        self.assertEqual(
            belt.call("work", '{"what": "it"}'), "error: the server hostile is gone: it did not answer within 0.2 s, 2 times in a row"
        )

    def test_an_answer_to_nobody_is_no_answer(self):
        limits = dataclasses.replace(LIMITS, call_seconds=0.2)
        self.assertEqual(self.result_of("wrong_id", limits)[0], "error: the server hostile did not answer within 0.2 s")

    def test_a_long_result_is_cut(self):
        result = self.result_of("huge")[0]
        self.assertTrue(result.endswith("y\n[cut off: 1000000 characters]"), result[-60:])
        self.assertLess(len(result), LIMITS.greatest_result + 60)

    def test_a_result_of_another_shape_is_a_fault_of_the_server(self):
        result = self.result_of("shape")[0]
        self.assertTrue(result.startswith("error: the server hostile did not keep to the protocol:"), result)

    def test_a_server_that_lied_about_its_arguments_is_quoted(self):
        result = self.result_of("refuse")[0]
        self.assertEqual(result, "error: the server hostile refused the call: there is no argument what")

    def test_what_is_no_text_is_named(self):
        self.assertEqual(self.result_of("image")[0], "[image, not shown]")

    def test_a_tools_own_error_is_told_as_it_is(self):
        self.assertEqual(self.result_of("fail")[0], "error: work: no paper left")

    def test_a_server_cannot_take_the_place_of_the_belts_own_tools(self):
        belt = self.belt("shadow")
        listed = belt.call("toolbelt_list_tools", "")
        self.assertIn("work: Works.", listed)
        self.assertIn("cannot be used, 'final_answer': the belt has a tool of that name)", listed)
        self.assertIn("cannot be used, 'toolbelt_add_tool': the belt has a tool of that name)", listed)
        belt.call("final_answer", '{"answer": "mine"}')
        self.assertEqual(belt.answer, "mine")

    def test_names_that_no_model_can_call_and_names_that_are_taken_are_left_out(self):
        listed = self.belt("names").call("toolbelt_list_tools", "")
        self.assertIn("'two words': that is no name of a tool", listed)
        self.assertIn("x': that is no name of a tool", listed)
        self.assertIn("'work': the server hostile has a tool of that name", listed)

    def test_schemas_that_cannot_be_shown_are_left_out(self):
        listed = self.belt("schemas").call("toolbelt_list_tools", "")
        self.assertIn("'endless': its schema has more than 8192 characters", listed)

    def test_a_declaration_that_is_none_costs_its_server_alone(self):
        belt = self.belt("array")
        self.assertIn("Input should be 'object'", belt.connections["hostile"].fault)
        self.assertEqual(belt.servers, ["good"])

    def test_a_thousand_tools_are_cut_and_a_list_without_an_end_ends_its_server(self):
        self.assertEqual(self.belt("many").call("toolbelt_list_tools", "").count("work_"), LIMITS.tools_of_a_server)
        self.assertEqual(
            self.belt("endless_list").connections["hostile"].fault, "ValueError: it declares more than 256 tools"
        )

    def test_servers_that_do_not_start_are_told_of(self):
        self.assertEqual(self.belt("start_dies").connections["hostile"].fault, "it ended with status 1: no licence")
        garbage = self.belt("start_garbage").connections["hostile"].fault
        self.assertEqual(garbage, "it said what is no JSON-RPC, and was ended")
        hanging = self.belt("start_hangs", dataclasses.replace(LIMITS, start_seconds=0.5))
        self.assertEqual(hanging.connections["hostile"].fault, "it was not ready within 0.5 s")

    def test_a_program_that_is_not_there_is_told_of(self):
        belt = Belt({"missing": StdioTransport(["/no/such/program"], greatest_line=1000)})
        self.addCleanup(belt.close)
        belt.open()
        self.assertIn("FileNotFoundError", belt.connections["missing"].fault)
        self.assertEqual(belt.servers, [])

    def test_a_url_that_nobody_serves_is_told_of(self):
        belt = Belt({"nobody": "http://127.0.0.1:9/mcp"})
        self.addCleanup(belt.close)
        belt.open()
        self.assertTrue(belt.connections["nobody"].fault)
        self.assertEqual(belt.servers, [])

    def test_no_process_outlives_the_belt(self):
        for fault in ("none", "hang", "flood"):
            belt = self.belt(fault, dataclasses.replace(LIMITS, call_seconds=0.2))
            belt.call("toolbelt_add_tool", '{"name": "work"}')
            belt.call("work", '{"what": "it"}')
            belt.close()
            deadline = time.monotonic() + 60
            while (left := children()) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual(left, [], fault)


def children():
    """The servers that this process has started and that are there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[1] == str(os.getpid()) and HOSTILE.encode() in line:
            found.append(pid)
    return found


if __name__ == "__main__":
    unittest.main()
