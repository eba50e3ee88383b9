"""How much a held-out score has grown, from a store that is written here."""

import json
import sqlite3
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import interval


class Interval(unittest.TestCase):
    def test_scores_are_means_of_tasks_by_step_of_whole_scorings_alone(self):
        with tempfile.TemporaryDirectory() as run:
            store = sqlite3.connect(Path(run) / "fulgurite.db")
            store.execute("CREATE TABLE rollouts (rollout_id, mode, step, input)")
            store.execute("CREATE TABLE spans (rollout_id, name, body)")
            played = [("val", 0, 7, 0.0), ("val", 0, 7, 1.0), ("val", 20, 7, 1.0), ("val", 20, 8, 0.0)]
            played += [("train", 0, 7, 1.0), ("val", 40, 8, 1.0)]
            for number, (mode, step, task, won) in enumerate(played):
                attributes = {"agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": 9.0}
                attributes |= {"agentlightning.reward.1.name": "won", "agentlightning.reward.1.value": won}
                body = json.dumps({"attributes": attributes})
                store.execute("INSERT INTO rollouts VALUES (?, ?, ?, ?)", (number, mode, step, task))
                store.execute("INSERT INTO spans VALUES (?, 'agentlightning.annotation', ?)", (number, body))
            # A call of the first rollout was rewarded, too.
            called = json.dumps({"attributes": {"agentlightning.reward.0.value": 1.0}})
            store.execute("INSERT INTO spans VALUES (0, 'agentlightning.annotation', ?)", (called,))
            store.commit()
            store.close()
            self.assertEqual(interval.scores(run, "won"), {0: {7: 0.5}, 20: {7: 1.0, 8: 0.0}})

    def test_an_interval_holds_the_mean_and_is_narrow_where_all_tasks_agree(self):
        self.assertEqual(interval.interval([0.25] * 10), (0.25, 0.25))
        low, high = interval.interval([0.0, 1.0] * 24)
        self.assertTrue(0.3 < low < 0.5 < high < 0.7)


if __name__ == "__main__":
    unittest.main()
