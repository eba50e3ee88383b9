//! The examples that are written out, file by file. `UPDATE_RECIPES=1 cargo nextest run init` writes this file.

/// An example that can be written out.
pub(super) struct Recipe {
    pub(super) name: &'static str,
    /// Paths below its directory, and texts.
    pub(super) files: &'static [(&'static str, &'static str)],
}

macro_rules! recipe {
    ($name:literal: $($file:literal)* $(; $shared:literal from $source:literal)*) => {
        Recipe {
            name: $name,
            files: &[
                $(($file, include_str!(concat!("../../examples/", $name, "/", $file))),)*
                $(($shared, include_str!(concat!("../../", $source))),)*
            ],
        }
    };
}

/// By their names.
pub(super) const RECIPES: &[Recipe] = &[
    recipe!("chat_sft":
        "README.md"
        "agent.py"
        "ask.toml"
        "asking.py"
        "chat_sft.toml"
        "eval_table.py"
        "facts.py"
        "make_data.py"
        "model.py"
        "style.py"
        "talk.py"
        "tests/__init__.py"
        "tests/fake_model.py"
        "tests/test_figures.py"
        "tests/test_style.py"
        ; "smollm2.py" from "examples/hello/smollm2.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("distill":
        "README.md"
        "agent.py"
        "distill.toml"
        "heed.toml"
        "make_data.py"
        "prompt.py"
        "tests/__init__.py"
        "tests/test_figures.py"
        "tests/test_prompt.py"
        ; "smollm2.py" from "examples/hello/smollm2.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("dpo_shorter":
        "README.md"
        "agent.py"
        "ask.toml"
        "dpo_shorter.toml"
        "pairs.py"
        "questions.py"
        "sample.toml"
        "tests/__init__.py"
        "tests/test_figures.py"
        "tests/test_pairs.py"
        ; "smollm2.py" from "examples/hello/smollm2.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("guess_number":
        "README.md"
        "agent.py"
        "corpus.py"
        "first_guess.py"
        "game.py"
        "grid.py"
        "guess_number.toml"
        "smollm2.toml"
        "tests/__init__.py"
        "tests/test_game.py"
        "tests/test_scripts.py"
        ; "smollm2.py" from "examples/hello/smollm2.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("hello":
        "README.md"
        "agent.py"
        "agent_lightning.py"
        "agent_lightning.toml"
        "hello-lora.toml"
        "hello.toml"
        "smollm2.py"
        "smollm2.toml"
        "tinker.toml"
        "tinker_server.toml"
    ),
    recipe!("local_search":
        "README.md"
        "agent.py"
        "bm25.py"
        "corpus.py"
        "local_search.toml"
        "loop.py"
        "pages.py"
        "tests/__init__.py"
        "tests/test_agent.py"
        "tests/test_search.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("toolbelt":
        "README.md"
        "agent.py"
        "belt.py"
        "cheap.toml"
        "connection.py"
        "corpus.py"
        "grade.py"
        "judged.toml"
        "loop.py"
        "office.toml"
        "office/__init__.py"
        "office/days.py"
        "office/entries.py"
        "office/serve.py"
        "office/servers/__init__.py"
        "office/servers/calendar.py"
        "office/servers/contacts.py"
        "office/servers/documents.py"
        "office/servers/files.py"
        "office/servers/mail.py"
        "office/servers/reckoning.py"
        "office/servers/rooms.py"
        "office/servers/sheets.py"
        "office/servers/todo.py"
        "office/small.py"
        "office/tasks.py"
        "office/world.py"
        "scripted_judge.py"
        "scripted_model.py"
        "setup.py"
        "small.toml"
        "small_agent.py"
        "stdio_transport.py"
        "teardown.py"
        "tests/__init__.py"
        "tests/hostile.py"
        "tests/test_belt.py"
        "tests/test_faults.py"
        "tests/test_judged.py"
        "tests/test_loop.py"
        "tests/test_small.py"
        "tests/test_stages.py"
        "tests/test_wire.py"
        "walk.py"
        "warmup.toml"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("toy_repo":
        "README.md"
        "claude.toml"
        "codex.toml"
        "hidden_test.py"
        "mini-swe-agent.toml"
        "opencode.toml"
        "repositories.py"
        "requirements.txt"
        "tasks.jsonl"
        "toy_repo.py"
    ),
    recipe!("twenty_questions":
        "README.md"
        "agent.py"
        "answerer.py"
        "corpus.py"
        "game.py"
        "grammar.py"
        "held_out.jsonl"
        "nouns.py"
        "nouns.tsv"
        "others.tsv"
        "paraphrases.txt"
        "patterns/__init__.py"
        "patterns/general.py"
        "patterns/pattern.py"
        "patterns/special.py"
        "predicates.tsv"
        "requirements.txt"
        "search.py"
        "tasks.py"
        "tests/__init__.py"
        "tests/gibberish.txt"
        "tests/test_corpus.py"
        "tests/test_facts.py"
        "tests/test_flow.py"
        "tests/test_game.py"
        "tests/test_grammar.py"
        "train.jsonl"
        "twenty_questions.toml"
        "warm_agent.py"
        "warmup.toml"
        ; "smollm2.py" from "examples/hello/smollm2.py"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("two_players":
        "README.md"
        "agent.py"
        "board.py"
        "corpus.py"
        "game.py"
        "tests/__init__.py"
        "tests/test_agent.py"
        "tests/test_game.py"
        "two_players.toml"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
    recipe!("wordle":
        "README.md"
        "agent.py"
        "corpus.py"
        "game.py"
        "tests/__init__.py"
        "tests/test_game.py"
        "tests/test_interval.py"
        "wordle.toml"
        "words.txt"
        ; "fulgurite_agent.py" from "python/fulgurite_agent.py"
    ),
];
