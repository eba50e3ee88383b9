//! What the command says of a config: what is wrong with it, what is in force and where that comes from.

use std::path::Path;

use crate::common::{Ran, fulgurite, printed, run, text, tiny_model};
use serde_json::json;
use tempfile::TempDir;

/// A directory with a config file in it.
fn configured(config: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (directory, name)
}

#[test]
fn a_config_that_is_wrong_is_told_with_its_line() {
    let fail = |config: &str| {
        let (directory, file) = configured(config);
        run(["config", "show", "--config", &file]).failure(directory.path())
    };
    insta::assert_snapshot!(fail("[server]\nlisten = \"127.0.0.1:0\"\n\n[runner]\nparalel = 8\n"), @r"
    error: [directory]/config.toml
      caused by: line 5: runner has no key `paralel`; did you mean `parallel`?
        5 | paralel = 8
          | ^^^^^^^
    ");
    insta::assert_snapshot!(fail("[severs]\n"), @r"
    error: [directory]/config.toml
      caused by: line 1: there is no key `severs`; did you mean `server`?
        1 | [severs]
          |  ^^^^^^
    ");
    insta::assert_snapshot!(fail("[server]\nwatchdog_interval = \"often\"\n"), @r#"
    error: [directory]/config.toml
      caused by: line 2: server.watchdog_interval is "often", but must be a number
        2 | watchdog_interval = "often"
          |                     ^^^^^^^
    "#);
    insta::assert_snapshot!(fail("[[models]]\nname = \"m\"\nbackend = \"abacus\"\npath = \"m\"\n"), @r#"
    error: [directory]/config.toml
      caused by: line 3: models[0].backend cannot be `abacus`; there is `embedded`, `vllm`, `sglang`, `llama-cpp`, `tinker`, `openai`, `anthropic`
        3 | backend = "abacus"
          |           ^^^^^^^^
    "#);
    insta::assert_snapshot!(fail("[[models]]\nname = \"m\"\n"), @r"
    error: [directory]/config.toml
      caused by: line 1: models[0] needs `backend`, which is missing
        1 | [[models]]
          | ^^^^^^^^^^
    ");
    insta::assert_snapshot!(fail("[[models]]\nname = \"m\"\nbackend = \"embedded\"\n"), @r#"
    error: [directory]/config.toml: models[0] `m`
      caused by: backend = "embedded" needs path, the model's directory: path = "models/m"
    "#);
    insta::assert_snapshot!(fail("[[models]]\nname = \"m\"\nbackend = \"openai\"\npath = \"m\"\nurls = [\"http://h\"]\n"), @r#"
    error: [directory]/config.toml: models[0] `m`
      caused by: backend = "openai" passes calls on as they come: leave out path, renderer, tools and changeover
    "#);
    insta::assert_snapshot!(fail("[server\n"), @r"
    error: [directory]/config.toml
      caused by: line 1: unclosed table, expected `]`
        1 | [server
          |        ^
    ");
    let nowhere = Path::new("/no/such");
    insta::assert_snapshot!(run(["config", "show", "--config", "/no/such/config.toml"]).failure(nowhere), @r"
    error: cannot read [directory]/config.toml
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn every_key_that_is_in_force_is_shown_with_where_it_comes_from() {
    let shown = printed(["config", "show"]);
    assert!(shown.contains("trainer.group_size = 8  # default\n"), "{shown}");
    let processors = std::thread::available_parallelism().unwrap();
    let shown = shown.replace(&format!("engine.threads = {processors} "), "engine.threads = [processors] ");
    let at_once = format!("at_once = {} ", processors.get().div_ceil(2));
    let shown = shown.replace(&at_once, "at_once = [half of them] ");
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("trainer.")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    server.listen = "127.0.0.1:4747"  # default
    server.hosts = []  # default
    server.cors_origins = []  # default
    server.admin_key_env = null  # default
    server.admin_key_file = null  # default
    server.body_limit_bytes = 33554432  # default
    server.header_limit_bytes = 65536  # default
    server.header_seconds = 60.0  # default
    server.body_seconds = 120.0  # default
    server.write_seconds = 60.0  # default
    server.shutdown_seconds = 30.0  # default
    server.watchdog_interval = 10.0  # default
    server.access_log = false  # default
    server.without_new_weights = "serve"  # default
    proxy.token_ids_on_attributed_path = true  # default
    proxy.train_temperature = 1.0  # default
    proxy.val_temperature = 1.0  # default
    proxy.continuation = "exact"  # default
    proxy.conversation_memory_bytes = 268435456  # default
    proxy.conversation_gap_seconds = 3600.0  # default
    proxy.auxiliary_rules.0.name = "claude_code_topic"  # default
    proxy.auxiliary_rules.0.system = "(?i)\\banalyze if this message indicates a new conversation topic\\b"  # default
    proxy.auxiliary_rules.0.user = null  # default
    proxy.auxiliary_rules.0.without_tools = true  # default
    proxy.auxiliary_rules.1.name = "claude_code_title"  # default
    proxy.auxiliary_rules.1.system = "(?i)\\bsummarize this coding conversation in under 50 characters\\b"  # default
    proxy.auxiliary_rules.1.user = null  # default
    proxy.auxiliary_rules.1.without_tools = true  # default
    proxy.auxiliary_rules.2.name = "claude_code_title"  # default
    proxy.auxiliary_rules.2.system = "(?i)\\bgenerate a concise, sentence-case title\\b"  # default
    proxy.auxiliary_rules.2.user = null  # default
    proxy.auxiliary_rules.2.without_tools = true  # default
    proxy.auxiliary_rules.3.name = "claude_code_title"  # default
    proxy.auxiliary_rules.3.system = "(?i)\\byou are naming a coding session so the user can\\b"  # default
    proxy.auxiliary_rules.3.user = null  # default
    proxy.auxiliary_rules.3.without_tools = true  # default
    proxy.auxiliary_rules.4.name = "claude_code_session_name"  # default
    proxy.auxiliary_rules.4.system = "(?i)\\bgenerate a short kebab-case name \\(2-4 words\\)"  # default
    proxy.auxiliary_rules.4.user = null  # default
    proxy.auxiliary_rules.4.without_tools = true  # default
    proxy.auxiliary_rules.5.name = "claude_code_suggestion"  # default
    proxy.auxiliary_rules.5.system = null  # default
    proxy.auxiliary_rules.5.user = "(?i)\\[suggestion mode: suggest what the user might\\b"  # default
    proxy.auxiliary_rules.5.without_tools = false  # default
    proxy.auxiliary_rules.6.name = "claude_code_recap"  # default
    proxy.auxiliary_rules.6.system = null  # default
    proxy.auxiliary_rules.6.user = "(?i)\\bthe user stepped away and is coming back\\. recap in under\\b"  # default
    proxy.auxiliary_rules.6.without_tools = false  # default
    proxy.auxiliary_rules.7.name = "opencode_title"  # default
    proxy.auxiliary_rules.7.system = "(?i)^\\s*you are a title generator\\b"  # default
    proxy.auxiliary_rules.7.user = null  # default
    proxy.auxiliary_rules.7.without_tools = true  # default
    proxy.auxiliary_rules.8.name = "aider_commit_message"  # default
    proxy.auxiliary_rules.8.system = "(?i)\\bgenerates concise,\\s+one-line git commit messages\\b"  # default
    proxy.auxiliary_rules.8.user = null  # default
    proxy.auxiliary_rules.8.without_tools = true  # default
    proxy.auxiliary_rules.9.name = "responses_compaction"  # default
    proxy.auxiliary_rules.9.system = null  # default
    proxy.auxiliary_rules.9.user = "(?i)^summarize this conversation for another assistant, who will go on\\b"  # default
    proxy.auxiliary_rules.9.without_tools = false  # default
    proxy.auxiliary_rules.10.name = "inspect_probe"  # default
    proxy.auxiliary_rules.10.system = null  # default
    proxy.auxiliary_rules.10.user = "^Please say 'hello, world'$"  # default
    proxy.auxiliary_rules.10.without_tools = true  # default
    proxy.budget.calls = null  # default
    proxy.budget.tokens = null  # default
    proxy.budget.sampled_tokens = null  # default
    proxy.budget.tool_calls = null  # default
    proxy.budget.seconds = null  # default
    proxy.first_token_seconds = 600.0  # default
    proxy.silence_seconds = 300.0  # default
    proxy.call_seconds = 3600.0  # default
    proxy.host_patience_seconds = 60.0  # default
    proxy.keep_alive_seconds = 10.0  # default
    proxy.large_requests_at_once = [half of them]  # default
    proxy.large_requests_waiting = 16  # default
    proxy.schema_bytes = 262144  # default
    proxy.unknown_fields = "ignore"  # default
    store.url = "sqlite://fulgurite.db"  # default (serve)
    store.synchronous = "full"  # default
    store.patience_seconds = 60.0  # default
    engine.threads = [processors]  # default
    engine.prefix_cache_bytes = 536870912  # default
    engine.device = "cpu"  # default
    engine.grammar_bytes = 262144  # default
    engine.grammar_values = 4096  # default
    engine.grammar_work = 10000  # default
    engine.grammar_steps = 1000000  # default
    engine.grammar_states = 50000  # default
    torch.python = "python3"  # default
    torch.processes = 1  # default
    torch.device = "auto"  # default
    torch.dtype = "auto"  # default
    torch.max_tokens_per_pass = 4096  # default
    torch.gradient_checkpointing = "auto"  # default
    torch.shares_gpu = false  # default
    prime_rl.directory = ""  # default
    prime_rl.ranks = 1  # default
    prime_rl.timeout_seconds = 3600.0  # default
    prime_rl.rollouts = "rollouts"  # default
    telemetry.otlp_endpoint = null  # default
    telemetry.content = false  # default
    tinker_server.directory = "fulgurite-tinker"  # default
    tinker_server.session_seconds = 300.0  # default
    tinker_server.requests_ahead = 1024  # default
    tinker_server.stable_reinforce = "cispo"  # default
    tinker_server.repeated_seeds = "derive"  # default
    models = []  # default
    run.name = "run"  # default
    run.directory = "runs"  # default
    run.seed = 1  # default
    base = null  # default
    prices = null  # default
    trackers.tensorboard = false  # default
    trackers.wandb = false  # default
    trackers.wandb_project = null  # default
    trackers.directory = null  # default
    trackers.python = "python3"  # default
    tasks = null  # default
    runner.command = []  # default
    runner.url = null  # default
    runner.warm = false  # default
    runner.grade = []  # default
    runner.grade_in_sandbox = false  # default
    runner.parallel = 8  # default
    runner.timeout_seconds = 600.0  # default
    runner.max_attempts = 3  # default
    runner.directory = null  # default
    runner.world = false  # default
    runner.setup = []  # default
    runner.snapshot = []  # default
    runner.teardown = []  # default
    runner.hook_timeout_seconds = 300.0  # default
    runner.unwatched = [".git","__pycache__",".pytest_cache","node_modules",".venv"]  # default
    runner.reward_file = null  # default
    runner.reward_key = null  # default
    runner.harbor_tests = false  # default
    runner.sandbox.kind = "none"  # default
    runner.sandbox.read = []  # default
    runner.sandbox.world = null  # default
    runner.sandbox.network = "proxy"  # default
    runner.sandbox.environment = []  # default
    runner.sandbox.image = null  # default
    runner.sandbox.processes = 1024  # default
    runner.sandbox.memory_bytes = 8589934592  # default
    runner.sandbox.disk_bytes = 17179869184  # default
    runner.sandbox.arguments = []  # default
    runner.rubric = null  # default
    "#);

    let (directory, file) = configured(
        "[server]\nlisten = \"127.0.0.1:0\"\nbody_limit_bytes = 33554432\n\n[[models]]\nname = \"m\"\nbackend = \"embedded\"\npath = \"model\"\n",
    );
    let shown =
        printed(["config", "show", "--config", &file]).replace(directory.path().to_str().unwrap(), "[directory]");
    let shown: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("server") || line.starts_with("models")).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    server.listen = "127.0.0.1:0"  # [directory]/config.toml
    server.hosts = []  # default
    server.cors_origins = []  # default
    server.admin_key_env = null  # default
    server.admin_key_file = null  # default
    server.body_limit_bytes = 33554432  # [directory]/config.toml
    server.header_limit_bytes = 65536  # default
    server.header_seconds = 60.0  # default
    server.body_seconds = 120.0  # default
    server.write_seconds = 60.0  # default
    server.shutdown_seconds = 30.0  # default
    server.watchdog_interval = 10.0  # default
    server.access_log = false  # default
    server.without_new_weights = "serve"  # default
    models.0.name = "m"  # [directory]/config.toml
    models.0.backend = "embedded"  # [directory]/config.toml
    models.0.path = "model"  # [directory]/config.toml
    models.0.upstream_model = null  # default
    models.0.renderer = "auto"  # default
    models.0.tools = "template"  # default
    models.0.urls = []  # default
    models.0.api_key_env = null  # default
    models.0.key_header = null  # default
    models.0.max_concurrency = 256  # default
    models.0.changeover = "drain"  # default
    models.0.base_model = null  # default
    models.0.lora_rank = null  # default
    models.0.lora_alpha = null  # default
    models.0.lora_scaling = null  # default
    models.0.lora_modules = null  # default
    models.0.lora_layers = null  # default
    models.0.lora_dropout = 0.0  # default
    models.0.adapter = null  # default
    models.0.adapter_sha256 = null  # default
    models.0.frozen = []  # default
    models.0.learner = "embedded"  # default
    models.0.trained = true  # default
    "#);
}

#[test]
fn what_the_environment_says_is_shown_with_its_variable() {
    let (_directory, file) = configured("[server]\nlisten = \"127.0.0.1:0\"\n\n[store]\nurl = \"sqlite://a.db\"\n");
    let show = |variables: &[(&str, &str)]| {
        let mut command = fulgurite(["config", "show", "--config", &file]);
        Ran::from(command.envs(variables.iter().copied()).output().unwrap())
    };
    let ran = show(&[
        ("FULGURITE_LISTEN", "127.0.0.1:4800"),
        ("FULGURITE_STORE", "postgres://me:secret@host/db"),
        ("FULGURITE_WATCHDOG_INTERVAL", "0.5"),
        ("FULGURITE_SEED", "7"),
        ("FULGURITE_MAX_STEPS", "9"),
    ]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let variables: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("FULGURITE_")).collect();
    insta::assert_snapshot!(variables.join("\n"), @r#"
    server.listen = "127.0.0.1:4800"  # FULGURITE_LISTEN (serve)
    server.watchdog_interval = 0.5  # FULGURITE_WATCHDOG_INTERVAL (serve)
    store.url = "postgres://me@host/db"  # FULGURITE_STORE (serve)
    run.seed = 7  # FULGURITE_SEED (train)
    trainer.max_steps = 9  # FULGURITE_MAX_STEPS (train)
    "#);
    let wrong = show(&[("FULGURITE_SEED", "some")]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "as train has it");
    assert!(wrong.stderr.contains("invalid value 'some' for '--seed <N>'"), "{}", wrong.stderr);
}

#[test]
fn every_key_of_the_example_is_known_to_come_from_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello/hello.toml");
    let lines = run(["config", "show", "--json", "--config", file.to_str().unwrap()]).json_lines();
    let shown = |key: &str| {
        let line = lines.iter().find(|line| line["key"] == key).unwrap_or_else(|| panic!("no {key}"));
        (line["value"].clone(), text(&line["from"]))
    };
    let from_file = file.to_str().unwrap().to_owned();
    assert_eq!(shown("run.name"), (json!("hello"), from_file.clone()));
    assert_eq!(shown("models.0.backend"), (json!("embedded"), from_file.clone()));
    assert_eq!(shown("models.0.renderer"), (json!("auto"), "default".to_owned()));
    assert_eq!(shown("tasks.train.range").1, from_file);
    assert_eq!(shown("server.listen").1, "default");
    let written = lines.iter().filter(|line| line["from"] == from_file).count();
    assert!(written > 20, "{written}");
}

const TASKS: &str =
    "[tasks]\ntrain = { range = [0, 4] }\nheld_out = { range = [4, 6] }\n[runner]\ncommand = [\"true\"]\n";
const MODEL: &str = "[[models]]\nname = \"m\"\nbackend = \"embedded\"\npath = \"model\"\n";

/// `[base]` with a shell script for its corpus program.
fn base(script: &str) -> String {
    format!(
        "[base]\ncorpus = [\"/bin/sh\", \"-c\", '''{script}''']\nvocabulary_size = 280\n\
         shape = {{ hidden_size = 16, layers = 1, heads = 2, key_value_heads = 1, head_size = 8, intermediate_size = 32, context_length = 64 }}\n"
    )
}

#[test]
fn training_that_cannot_start_says_what_is_missing() {
    let fail = |config: &str| {
        let (directory, file) = configured(config);
        let message = run(["train", &file]).failure(directory.path());
        assert!(!directory.path().join("model").exists(), "half a model would be taken for a whole one");
        message
    };
    insta::assert_snapshot!(fail(TASKS), @r"
    error: [directory]/config.toml
      caused by: training needs exactly one [[models]], and there are 0
    ");
    insta::assert_snapshot!(fail(&[MODEL, MODEL, TASKS].concat()), @r"
    error: [directory]/config.toml
      caused by: training needs exactly one [[models]], and there are 2; those with trained = false are served beside it
    ");
    insta::assert_snapshot!(fail(MODEL), @r"
    error: [directory]/config.toml
      caused by: training needs [tasks], or [trainer] harvest
    ");
    insta::assert_snapshot!(fail(&[MODEL, TASKS, "timeout_seconds = 1e20\n"].concat()), @r"
    error: [directory]/config.toml
      caused by: [runner] timeout_seconds is 1e20, but no clock goes on for so many seconds
    ");
    insta::assert_snapshot!(fail(&[MODEL, TASKS].concat()), @"error: [directory]/model does not exist, and there is no [base] to make it from ([[models]] path of [directory]/config.toml): `fulgurite model fetch hf:OWNER/NAME DIR` brings a model, and an example's README says how its own is made");
    insta::assert_snapshot!(fail(&[MODEL, TASKS, &base("echo 'no sand left' >&2; exit 3")].concat()), @r"
    no sand left
    error: the corpus program /bin/sh failed: exit status: 3
    ");
    insta::assert_snapshot!(fail(&[MODEL, TASKS, &base("echo '{}'; echo 'not JSON'")].concat()), @r"
    error: [base] corpus line 2 is not JSON
      caused by: expected ident at line 1 column 2
    ");
}

/// Everything is looked at before anything is made: no base model, no run.
#[test]
fn a_config_that_cannot_train_is_refused_at_the_start_with_file_key_and_fix() {
    let fail = |more: &str| {
        let (directory, file) = configured(&[MODEL, &base("exit 9"), more].concat());
        let message = run(["train", &file]).failure(directory.path());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is made");
        message
    };
    let trainer = |lines: &str| fail(&format!("{TASKS}[trainer]\n{lines}\n"));
    let runner = |lines: &str| fail(&TASKS.replace("command = [\"true\"]", lines));
    insta::assert_snapshot!(trainer("learning_rate = 0.0"), @r#"
    error: [directory]/config.toml
      caused by: [trainer] learning_rate is 0, but must be a finite number above 0, such as 1e-4
    "#);
    insta::assert_snapshot!(trainer("learning_rate = nan"), @r#"
    error: [directory]/config.toml
      caused by: [trainer] learning_rate is NaN, but must be a finite number above 0, such as 1e-4
    "#);
    insta::assert_snapshot!(trainer("group_size = 1"), @r#"
    error: [directory]/config.toml
      caused by: [trainer] group_size is 1, but must be at least 2: its mean is what each is measured against
    "#);
    insta::assert_snapshot!(trainer("groups_per_batch = -4"), @r#"
    error: [directory]/config.toml
      caused by: line 15: trainer.groups_per_batch is -4, but must be a whole number, 0 or more
        15 | groups_per_batch = -4
           |                    ^^
    "#);
    insta::assert_snapshot!(trainer("max_steps = \"ten\""), @r#"
    error: [directory]/config.toml
      caused by: line 15: trainer.max_steps is "ten", but must be a whole number, 0 or more
        15 | max_steps = "ten"
           |             ^^^^^
    "#);
    insta::assert_snapshot!(trainer("sampling_parameters = { temprature = 1.0 }"), @r#"
    error: [directory]/config.toml
      caused by: [trainer] sampling_parameters.temprature is no sampling parameter; did you mean `temperature`?
    "#);
    insta::assert_snapshot!(trainer("sampling_parameters = { temperature = 0 }"), @r#"
    error: [directory]/config.toml
      caused by: [trainer] sampling_parameters.temperature is 0, but must be above 0 and at most 2: the learner divides the logits by it, and at 0 a token is certain
    "#);
    insta::assert_snapshot!(trainer("advantages = { baseline = \"mean\" }"), @r#"
    error: [directory]/config.toml
      caused by: line 15: trainer.advantages.baseline cannot be `mean`; there is `group_mean`, `leave_one_out`, `batch_mean`, `none`
        15 | advantages = { baseline = "mean" }
           |                           ^^^^^^
    "#);
    insta::assert_snapshot!(runner("command = [\"true\", \"{tsak}\"]"), @r#"
    error: [directory]/config.toml
      caused by: [runner] command
      caused by: the argument "{tsak}" holds `{tsak}`, which is filled in nowhere: write `{task}` or `{task.FIELD}`
    "#);
    insta::assert_snapshot!(runner("command = [\"true\", \"{task.question}\"]"), @r#"
    error: [directory]/config.toml
      caused by: [runner] command
      caused by: the argument "{task.question}" asks for the field `question`, which the task 0 has not
    "#);
    insta::assert_snapshot!(runner("command = [\"no-such-agent\"]"), @r#"
    error: [directory]/config.toml
      caused by: [runner] command
      caused by: cannot find the program "no-such-agent" beside the running executable or on PATH
    "#);
    insta::assert_snapshot!(runner("command = [\"python3 agent.py\"]"), @r#"
    error: [directory]/config.toml
      caused by: [runner] command
      caused by: cannot find the program "python3 agent.py" beside the running executable or on PATH: each word is an element of its own, ["python3", "agent.py"]
    "#);
    insta::assert_snapshot!(runner("command = \"python3 agent.py\""), @r#"
    error: [directory]/config.toml
      caused by: line 13: runner.command is "python3 agent.py", but must be a list
        13 | command = "python3 agent.py"
           |           ^^^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(runner("command = [\"true\"]\ngrade = [\"grade.py\"]"), @r#"
    error: [directory]/config.toml
      caused by: [runner] grade
      caused by: cannot find the program "grade.py" beside the running executable or on PATH: a script is an argument of its interpreter, ["python3", "grade.py"]
    "#);
    insta::assert_snapshot!(runner("command = [\"true\"]\nparallel = 0"), @r#"
    error: [directory]/config.toml
      caused by: [runner] parallel is 0, but must be at least 1
    "#);
    insta::assert_snapshot!(runner("command = [\"true\"]\ndirectory = \"nowhere\""), @r#"
    error: [directory]/config.toml
      caused by: [runner] directory is [directory]/nowhere, which is no directory
    "#);
    insta::assert_snapshot!(fail("[tasks]\ntrain = { range = [4, 0] }\nheld_out = [1]\n"), @r#"
    error: [directory]/config.toml
      caused by: [tasks] train holds no tasks (of a range the first number is included, and the second is not)
    "#);
    insta::assert_snapshot!(fail("[tasks]\ntrain = \"tasks.jsonl\"\nheld_out = [1]\n"), @r#"
    error: [directory]/config.toml
      caused by: line 10: tasks.train is "tasks.jsonl", but must be a list of tasks, { range = [0, 1000] }, { file = "tasks.jsonl" } or { harbor = "DIR" }
        10 | train = "tasks.jsonl"
           |         ^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(fail("[tasks]\ntrain = { file = \"tasks.jsonl\" }\nheld_out = [1]\n"), @r#"
    error: [directory]/config.toml
      caused by: [directory]/tasks.jsonl: there is no such file; an example's README says how its own is made
    "#);
    insta::assert_snapshot!(fail(&format!("[run]\nname = \"a/b\"\n{TASKS}")), @r#"
    error: [directory]/config.toml
      caused by: [run] name is "a/b", but names a directory: it must not be empty, begin with a dot or hold a slash
    "#);
    insta::assert_snapshot!(fail(&format!("[base.training]\nlearning_rate = -1.0\n{TASKS}")), @r#"
    error: [directory]/config.toml
      caused by: [base.training] learning_rate is -1, but must be a finite number above 0, such as 1e-4
    "#);
}

#[test]
fn a_device_that_is_not_there_is_named_before_anything_is_served() {
    let (directory, file) = configured(&["[engine]\ndevice = \"cuda:1000\"\n", MODEL].concat());
    tiny_model(directory.path(), 64);
    let message = run(["serve", "--listen", "127.0.0.1:0", "--config", &file]).failure(directory.path());
    assert!(message.contains("no product can be computed on cuda:1000: "), "{message}");
}

#[test]
fn there_must_be_something_to_resume() {
    let (directory, file) = configured(&[MODEL, TASKS].concat());
    tiny_model(directory.path(), 64);
    let fail = |flags: &[&str]| run(["train", &file].iter().chain(flags)).failure(directory.path());
    insta::assert_snapshot!(fail(&["--resume"]), @"error: [directory]/runs holds no run run-seed-1-N to resume");
    let empty = directory.path().join("empty");
    insta::assert_snapshot!(fail(&["--resume", "--run-directory", empty.to_str().unwrap()]), @"error: [directory]/empty holds no run to resume");
    assert!(!empty.exists());
}
