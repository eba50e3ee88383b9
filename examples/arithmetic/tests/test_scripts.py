"""What stands beside the task: what a training costs, and the picture of several."""

import os
import subprocess
import sys
import time
import unittest
from xml.etree import ElementTree

import compare
from baselines import measure

SVG = "{http://www.w3.org/2000/svg}"


def curve(*scores):
    return [
        {"step": step, "sampled_tokens": 100 * step, "cpu_seconds": 2.5 * step, "held_out": score}
        for step, score in enumerate(scores)
    ]


class Picture(unittest.TestCase):
    def test_each_curve_is_drawn_once_over_each_cost_and_each_name_has_a_colour(self):
        curves = [("ours", curve(0.5, 0.75, 1.0)), ("ours", curve(0.4, 0.9)), ("A & B", curve(0.5, 0.6))]
        picture = ElementTree.fromstring("\n".join(compare.drawn(curves)))
        lines = picture.findall(f"{SVG}polyline")
        self.assertEqual([line.get("stroke") for line in lines], 2 * [*2 * [compare.COLOURS[0]], compare.COLOURS[1]])
        self.assertEqual([len(line.get("points").split()) for line in lines], 2 * [3, 2, 2])
        self.assertEqual([text.text for text in picture.findall(f"{SVG}text")][-2:], ["ours", "A & B"])
        first, last = (tuple(map(float, point.split(","))) for point in lines[0].get("points").split()[::2])
        self.assertEqual((first[1], last[1]), (20 + compare.HEIGHT / 2, 20.0), "0.5 is half way up, and 1 at the top")
        self.assertEqual(last[0] - first[0], compare.WIDTH)

    def test_rewards_below_nothing_have_a_place(self):
        picture = ElementTree.fromstring("\n".join(compare.drawn([("hello", curve(-0.65, 0.96))])))
        heights = [float(point.split(",")[1]) for point in picture.find(f"{SVG}polyline").get("points").split()]
        self.assertTrue(all(20 <= height <= 20 + compare.HEIGHT for height in heights), heights)

    def test_files_go_by_the_name_in_front_of_them(self):
        self.assertEqual(compare.named_files(["a=1", "2", "b=3"]), [("a", "1"), ("a", "2"), ("b", "3")])
        with self.assertRaises(SystemExit):
            compare.named_files(["1"])

    def test_an_axis_has_few_round_numbers(self):
        self.assertEqual(compare.ticks(90), [0, 20, 40, 60, 80])
        self.assertEqual(compare.ticks(7000), [0, 2000, 4000, 6000])


class Cost(unittest.TestCase):
    def test_seconds_are_those_of_a_process_and_all_below_it(self):
        found = {1: (0, 4.0), 7: (1, 1.0), 8: (7, 0.5), 9: (7, 0.25), 10: (8, 2.0)}
        self.assertEqual(measure.seconds_of(7, found), 3.75)
        self.assertEqual(measure.seconds_of(11, found), 0.0)

    def test_the_system_tells_of_this_process(self):
        began = time.process_time()
        while time.process_time() < began + 0.1:
            pass
        found = measure.processes()
        self.assertEqual(found[os.getpid()][0], os.getppid())
        self.assertGreater(measure.seconds_of(os.getpid(), found), 0.05)

    def test_children_that_have_ended_count(self):
        subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.3: pass"], check=True)
        self.assertGreater(measure.seconds_of(os.getpid(), measure.processes()), 0.25)


if __name__ == "__main__":
    unittest.main()
