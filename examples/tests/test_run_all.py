"""Which runs examples/run-all makes of recipes.toml, and where; it trains nothing here."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

import tomllib

EXAMPLES = Path(__file__).resolve().parents[1]


def module():
    loader = importlib.machinery.SourceFileLoader("run_all", str(EXAMPLES / "run-all"))
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_all", loader))
    loader.exec_module(loaded)
    return loaded


RUN_ALL = module()
RECIPES = tomllib.loads((EXAMPLES / "recipes.toml").read_text())["recipe"]


class Runs(unittest.TestCase):
    def test_no_two_recipes_share_a_run_a_curve_or_a_picture(self):
        for what in ("curve", "picture"):
            found = [(recipe["name"], recipe[what]) for recipe in RECIPES]
            self.assertEqual(len(found), len(set(found)), what)
        directories = [RUN_ALL.run_directory(recipe, seed) for recipe in RECIPES for seed in (1, 2, 3)]
        self.assertEqual(len(directories), len(set(directories)))
        self.assertEqual(len({recipe["label"] for recipe in RECIPES}), len(RECIPES))

    def test_every_recipe_has_its_config_its_agent_and_a_readme_that_trains_it(self):
        for recipe in RECIPES:
            here = EXAMPLES / recipe["name"]
            readme = (here / "README.md").read_text()
            for file in [recipe["config"], *recipe.get("agent", "").split()[1:]]:
                self.assertTrue((here / file).exists(), file)
                self.assertIn(file, readme, recipe["name"])

    def test_a_recipe_of_another_agent_is_resumed_as_it_was_begun(self):
        (recipe,) = RUN_ALL.chosen(RECIPES, "calculator/openai-agents")
        directory = EXAMPLES / "calculator/runs/openai-agents-2"
        started = ["train", "calculator.toml", "--seed", "2", "--run-directory", directory]
        agent = ["--", "python3", "agent_openai_agents.py"]
        self.assertEqual(RUN_ALL.command_line(recipe, 2, False)[1:], started + agent)
        self.assertEqual(RUN_ALL.command_line(recipe, 2, True)[1:], [*started, "--resume", *agent])
        (recipe,) = RUN_ALL.chosen(RECIPES, "wordle")
        self.assertEqual(RUN_ALL.command_line(recipe, 1, True)[-1], "--resume")

    def test_recipes_are_chosen_by_their_directory_or_by_their_own_name(self):
        def names(only):
            return [RUN_ALL.called(recipe) for recipe in RUN_ALL.chosen(RECIPES, only)]

        self.assertEqual(names("calculator"), ["calculator/langgraph", "calculator/openai-agents"])
        self.assertEqual(names("wordle,calculator/langgraph"), ["wordle/wordle", "calculator/langgraph"])
        self.assertEqual(len(names(None)), len(RECIPES))
        with self.assertRaisesRegex(SystemExit, "recipes.toml has no calculater, but arithmetic/arithmetic, "):
            names("calculater")


class Rows(unittest.TestCase):
    def test_every_recipe_with_curves_has_a_row_of_its_own_for_each_seed(self):
        page = RUN_ALL.table(RECIPES)
        for recipe in RECIPES:
            curves = [EXAMPLES / recipe["name"] / recipe["curve"].format(seed=seed) for seed in (1, 2, 3)]
            self.assertEqual(page.count(f"| [{recipe['label']}]("), sum(curve.exists() for curve in curves))

    def test_an_interval_of_a_difference_is_newcombes(self):
        # 56 of 70 less 48 of 80: the first example of his paper, by his method 10.
        low, high = RUN_ALL.difference((48 / 80, 80), (56 / 70, 70))
        self.assertAlmostEqual(low, 0.0524, places=4)
        self.assertAlmostEqual(high, 0.3339, places=4)


if __name__ == "__main__":
    unittest.main()
