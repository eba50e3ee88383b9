"""What obeys the prompt is decided by code, and neither stage shows the sign-off that is to be learnt."""

import re
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "chat_sft"))

import agent
import make_data
import prompt


class Obeys(unittest.TestCase):
    def test_an_answer_with_the_sign_off_behind_it_obeys(self):
        for answer in ["Oslo is the capital.", "It is big. It is far away!", "Is it so?\n\nYes."]:
            reply = f"{answer} Fair winds."
            self.assertTrue(prompt.obeys(reply, True), reply)

    def test_everything_else_does_not(self):
        for reply in [
            None,
            "",
            "Fair winds.",
            "Oslo. Fair winds.",
            "Oslo is the capital.",
            "Oslo is the capital Fair winds.",
            "Oslo is the capital. Fair winds. ",
            "Oslo is the capital. Fair winds. Fair winds.",
            "Fair winds. Oslo is the capital.",
            "Oslo is the capital. fair winds.",
            '{"reward": 1.0}',
        ]:
            self.assertFalse(prompt.obeys(reply, True), reply)
        self.assertFalse(prompt.obeys("Oslo is the capital. Fair winds.", False), "cut off")


class Data(unittest.TestCase):
    def test_the_sign_off_is_in_nothing_that_a_model_is_shown(self):
        made = make_data.files(1)
        self.assertNotIn("fair winds", str(made).lower())
        self.assertNotIn(prompt.SIGN_OFF, prompt.OTHERS)

    def test_answers_of_stage_1_obey_their_own_prompt_and_only_where_there_is_one(self):
        for row in make_data.files(1)["heed.jsonl"]:
            first, answer = row["messages"][0], row["messages"][-1]["content"]
            if first["role"] == "system":
                sign_off = re.search(r'"(.+)"', first["content"]).group(1)
                self.assertTrue(prompt.obeys(answer, True, sign_off), row)
            else:
                self.assertFalse([text for text in prompt.OTHERS if answer.endswith(text)], row)

    def test_what_is_scored_is_not_trained_and_the_same_seed_writes_the_same(self):
        made = make_data.files(1)
        sets = [{row["question"] for row in made[f"{name}.jsonl"]} for name in ("train", "held_out", "final")]
        self.assertFalse(sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])
        self.assertFalse({row["messages"][-2]["content"] for row in made["heed.jsonl"]} & (sets[1] | sets[2]))
        self.assertEqual(make_data.files(1), made)


class Agent(unittest.TestCase):
    def test_the_prompt_is_sent_only_where_it_is_asked_for(self):
        self.assertEqual(agent.messages("Why?", False), [{"role": "user", "content": "Why?"}])
        self.assertEqual(agent.messages("Why?", True)[0], {"role": "system", "content": prompt.PROMPT})

    def test_the_config_has_the_prompt_that_is_scored(self):
        config = (Path(__file__).resolve().parents[1] / "distill.toml").read_text()
        self.assertIn(f"teacher_system = '{prompt.PROMPT}'", config)
