//! What a person sees of the command: help, tables, errors, exit codes.

use std::path::Path;

use crate::common::{Ran, fulgurite, printed, run};

#[test]
fn help_says_what_there_is() {
    insta::assert_snapshot!(printed(["--help"]), @"
    Train any agent by reinforcement learning, unchanged: point its base URL here

    Usage: fulgurite <COMMAND>

    Commands:
      init         Write an example out, as the beginning of a project of your own
      serve        Serve the proxy that agents talk to, the store's API and the models
      train        Train a policy by the rollouts of an unmodified agent; makes what is missing first
      plan         Say what a run needs of GPU and memory, whether that fits, and what to change
      data         Look at a run's conversations or comparisons: counts, lengths, what is left out, what
                   is trained of them
      sweep        Train a config with several values of its keys, each with the same seeds, and compare
                   them
      eval         Score the held-out tasks of a config, each played several times, by a model or a
                   checkpoint as it is
      regrade      Grade recorded rollouts again, by another grader or one that was mended, without
                   sampling anew
      rescore      Score the tokens that a run has sampled under other weights: what was learnt, token
                   by token
      chat         Talk to a model, a checkpoint or a run, here or at a server
      ask          Ask a model one question: an agent of one call, warm or not
      run          Run an unmodified agent once for each rollout on the queue
      enqueue      Put tasks on a server's queue, for its runners
      reward       Reward a recorded rollout or session, at its server or in its store
      worker-key   Print a key for runners elsewhere (`run --attach`) that are not trusted with the
                   admin key
      reader-key   Print a key that reads everything and changes nothing, for who looks at the page
      rollouts     List the rollouts of a store, newest last
      attempts     List attempts at rollouts
      spans        List spans
      generations  List generations: the model calls, token by token
      drift        Say of each call whether it went on, token by token, where an earlier one ended, and
                   if not why
      triplets     List triplets (prompt, response, reward)
      rewards      List rewards
      workers      List workers
      resources    List resources
      show         Show one rollout whole: its calls, answers and rewards
      report       Write runs as one page of HTML: curves, tokens, best and worst answers; or draw one
                   metric
      runs         List runs, show one, or compare two: scores, tokens and what they cost
      watch        Watch a run on the terminal, while it goes on or after: curves, alarms, the last
                   reply
      dashboard    Show the page of a run or a store that nobody serves, in a browser
      doctor       Say what is amiss with a run, or missing on this machine, and what to do
      harness      Check how an agent's own program calls a model, and what of it can be trained
      learners     Check what a server that trains takes, and whether its numbers are right
      template     Look at what a model is given and at what it said, token by token
      mcp          Serve the tools by which a coding agent trains models, over the Model Context
                   Protocol
      model        Fetch a model, look at one, or make another of it
      skills       Teach a coding agent how to do research with this program
      stats        Count what a store holds
      sql          Run one SQL query on a store, which cannot be changed by it
      export       Write a store, or a part of it, to a file
      import       Read exported files into a store; what is there already stays as it is
      prune        Delete rollouts that ended long ago, with all that belongs to them
      store        Check a store, or renew its checksums
      config       Show the config that is in force and where each value came from
      completions  Print a shell's script that completes the command's words
      man          Print the page for `man`, or write those of all commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    ");
    insta::assert_snapshot!(printed(["serve", "--help"]), @r#"
    Serve the proxy that agents talk to, the store's API and the models

    Usage: fulgurite serve [OPTIONS]

    Options:
          --config <FILE>                Config file [env: FULGURITE_CONFIG=]
          --listen <ADDRESS>             Address to listen on; port 0 takes a free one [env:
                                         FULGURITE_LISTEN=]
          --ready-file <FILE>            Write {"url": ..., "pid": ...} here once it answers
          --store <URL>                  Where everything is recorded: sqlite://FILE or
                                         postgres://USER:PASSWORD@HOST/DATABASE [env: FULGURITE_STORE]
          --model <SPEC>                 Serve a model:
                                         NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME][,tools=preamble],
                                         at a remote host
                                         NAME=vllm|sglang|llama-cpp|tinker:URL,path=DIRECTORY[,renderer=NAME][,tools=preamble][,api_key_env=VARIABLE],
                                         or by passing its calls on
                                         NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE]
                                         (repeatable)
          --watchdog-interval <SECONDS>  Seconds between looks for attempts that are out of time or
                                         silent; 0 looks before each call of Agent-lightning's API
                                         instead [env: FULGURITE_WATCHDOG_INTERVAL=]
          --json                         Print JSON, one object a line
      -h, --help                         Print help
    "#);
    insta::assert_snapshot!(printed(["train", "--help"]), @r#"
    Train a policy by the rollouts of an unmodified agent; makes what is missing first

    Usage: fulgurite train [OPTIONS] <CONFIG> [-- <AGENT>...]

    Arguments:
      <CONFIG>    Config file: TOML, of which docs/reference/config.md has every key
      [AGENT]...  The agent's command, in place of the config's [runner] command

    Options:
          --seed <N>             Seed of the base model and of the run, in place of the config's [env:
                                 FULGURITE_SEED=]
          --server <URL>         Train as a daemon beside the server at this URL, which keeps the record
                                 and samples for its agents, in place of a server of its own; its admin
                                 key, if it has one, is taken from where the config's [server] says, or
                                 from FULGURITE_ADMIN_KEY
          --resume               Go on with the latest run of this config and seed from its last
                                 checkpoint
          --start-over           Begin a new run although somebody's weights are behind the model of
                                 --server, and put the config's in their place
          --replace-weights      Go on although other weights are behind the model of --server than the
                                 run's newest, and put its checkpoint's in their place
          --set <KEY=VALUE>      Put a value in place of a key of the config (repeatable):
                                 trainer.learning_rate=3e-4, models.0.lora_rank=8; the value is TOML, or
                                 text without quotes
          --run-directory <DIR>  Directory of the run, in place of a new one below the config's [run]
                                 directory
          --max-steps <N>        Updates at most, in place of the config's [env: FULGURITE_MAX_STEPS=]
          --allowed-steps <N>    Updates that the run may make before it waits for leave to make more,
                                 which the record of its server, or --allowed-steps of a resumption,
                                 gives; what it has learnt until then is in a checkpoint
          --dry-run              Make one update on one group, of which nothing is kept, and say what
                                 the whole run would take
          --ready-file <FILE>    Write {"url": ..., "pid": ...} here once the server answers
          --json                 Print JSON, one object a line: one for each step and each warning, and
                                 a summary at the end
      -h, --help                 Print help

    Exit codes:
      0  the run is over: the stop rule was met, or the limit of updates reached
      1  it failed, or was interrupted; --resume goes on from its last checkpoint
      2  the command line is wrong
    "#);
    insta::assert_snapshot!(printed(["run", "--help"]), @r#"
    Run an unmodified agent once for each rollout on the queue

    Usage: fulgurite run [OPTIONS] [-- <AGENT>...]

    Arguments:
      [AGENT]...  The agent: program and arguments; {task} and {task.FIELD} are filled in, never through
                  a shell

    Options:
          --server <URL>        Server whose queue is worked off; its admin key, if it has one, is taken
                                from FULGURITE_ADMIN_KEY [env: FULGURITE_SERVER=] [default:
                                http://127.0.0.1:4747]
          --attach              With a worker's key (FULGURITE_WORKER_KEY) in place of the admin key, as
                                from within a sandbox that can only call out
          --worker-id <ID>      Name of this runner in the store; a new one of the same name takes over
                                what the old one held
          --config <FILE>       Config whose [runner] says what is run and in what worlds; what is given
                                here comes before it
          --parallel <N>        Agents at a time [default: 4, or the config's]
          --warm                The agent is one process that reads tasks as lines from its standard
                                input and writes answers as lines; see docs/how-to/warm-agents.md
          --grade <COMMAND>     Program that grades: run after the agent with its output on stdin,
                                prints {"reward": 1.0}. One string, split at spaces; {task} and
                                {task.FIELD} are filled in
          --grade-word <WORD>   The same, one word at a time (repeatable)
          --timeout <SECONDS>   Seconds that agent and grader may take together; then their whole
                                process group is killed [default: 600, or the config's]
          --worlds <DIR>        Directory that worlds are made in, one of each attempt [default: a
                                directory of this user's among the system's temporary files]
          --directory <DIR>     Directory that the agent is started in
          --until-idle          Leave when the queue is empty and nothing runs
          --until-stdin-closes  Leave, and kill the agents, when standard input is closed
          --json                Print JSON, one object a line
      -h, --help                Print help
    "#);
    insta::assert_snapshot!(printed(["rollouts", "--help"]), @r"
    List the rollouts of a store, newest last

    Usage: fulgurite rollouts [OPTIONS] [ROLLOUT]

    Arguments:
      [ROLLOUT]  Only this rollout, by its id or by the name of the session that it records

    Options:
          --store <URL>      Store: sqlite://FILE or postgres://...; without --store and --run the
                             config's, else sqlite://fulgurite.db [env: FULGURITE_STORE]
          --run <DIR>        Training run whose store is meant: its directory, or its name below runs/
          --config <FILE>    Config file whose store is meant
          --rollout <ID>     Only this rollout, by its id or by the name of the session that it records
          --mode <MODE>      Only of rollouts with this mode: train, val, test
          --run-id <ID>      Only of rollouts of this training run
          --step <N>         Only of rollouts that were made for this step of their run
          --since <TIME>     Only what began at this time or later: 90s, 10m, 2h or 30d ago, or
                             2026-11-21T15:04:05Z
          --status <STATUS>  Only with this status (repeatable): queuing, preparing, running, failed,
                             succeeded, cancelled, requeuing
          --where <FILTER>   Only rollouts that this means, such as 'reward >= 1 and mode = train', of
                             which --limit leaves the newest; docs/how-to/sft.md has the language
          --limit <N>        Only the newest so many [default: 50]
          --all              All of them
          --sort <FIELD>     Sort by this field of the record, greatest last, in place of the order in
                             which they were made
          --reverse          Least last, and with a limit only the least
          --follow           Keep printing what is new, until Ctrl-C
          --json             Print JSON, one object a line
      -h, --help             Print help
    ");
    insta::assert_snapshot!(printed(["show", "--help"]), @r"
    Show one rollout whole: its calls, answers and rewards

    Usage: fulgurite show [OPTIONS] <ROLLOUT>

    Arguments:
      <ROLLOUT>  The rollout, by its id or by the name of the session that it records

    Options:
          --store <URL>       Store: sqlite://FILE or postgres://...; without --store and --run the
                              config's, else sqlite://fulgurite.db [env: FULGURITE_STORE]
          --run <DIR>         Training run whose store is meant: its directory, or its name below runs/
          --config <FILE>     Config file whose store is meant
          --tokens            One line for each sampled token: its id, its logprob, and its text if the
                              tokenizer is known
          --tokenizer <FILE>  tokenizer.json or its directory; by default those of the config's
                              [[models]] are tried, with --run those of the run
          --json              Print JSON: one object
      -h, --help              Print help
    ");
    insta::assert_snapshot!(printed(["config", "--help"]), @r"
    Show the config that is in force and where each value came from

    Usage: fulgurite config <COMMAND>

    Commands:
      show  Print every key with its value and where the value came from
      help  Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
    insta::assert_snapshot!(printed(["config", "show", "--help"]), @r"
    Print every key with its value and where the value came from

    Usage: fulgurite config show [OPTIONS]

    Options:
          --config <FILE>  Config file [env: FULGURITE_CONFIG=]
          --json           Print JSON
      -h, --help           Print help
    ");
}

#[test]
fn the_lists_take_the_same_flags() {
    let flags = |command: &str| {
        let help = printed([command, "--help"]);
        let names = help.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned);
        names
            .filter(|name| {
                !["--status", "--where", "--worker", "--attempt", "--name", "--model"].contains(&name.as_str())
            })
            .collect()
    };
    let rollouts: std::collections::BTreeSet<String> = flags("rollouts");
    for command in ["attempts", "spans", "generations", "rewards"] {
        assert_eq!(flags(command), rollouts, "{command}");
    }
}

#[test]
fn a_wrong_call_is_exit_code_2_and_nothing_on_stdout() {
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["serve", "--no-such-flag"],
        &["serve", "--watchdog-interval", "soon"],
        &["run"],
        &["run", "--grade", "a", "--grade-word", "b", "--", "true"],
        &["train"],
        &["config"],
        &["rollouts", "--store", "sqlite://a", "--run", "b"],
        &["rollouts", "--all", "--limit", "3"],
        &["rollouts", "--status", "asleep"],
        &["rollouts", "--follow", "--status", "failed"],
        &["attempts", "--since", "soon"],
        &["generations", "ro-1", "--rollout", "ro-1"],
        &["show"],
        &["show", "ro-1", "--tokenizer", "tokenizer.json"],
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.contains("--help"), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn the_program_says_what_it_was_built_from() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(printed(["-V"]), format!("fulgurite {version}\n"));
    let long = printed(["--version"]);
    let lines: Vec<&str> = long.lines().collect();
    let stated =
        |at: usize, what: &str| lines[at].strip_prefix(what).unwrap_or_else(|| panic!("{long}")).trim().to_owned();
    assert_eq!((lines.len(), lines[0]), (3, format!("fulgurite {version}").as_str()), "{long}");
    let commit = stated(1, "commit:");
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Where there is no checkout, as in an unpacked archive, nobody knows.
    assert!(is_commit || (commit == "unknown" && !Path::new(".git").exists()), "{long}");
    assert!(stated(2, "target:").contains('-'), "{long}");
}

#[test]
fn shells_can_complete_the_command_s_words() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(["completions", shell]);
        assert!(script.contains("generations") && script.contains("ready-file"), "{shell}: {script}");
    }
    let file = directory.path().join("fulgurite.bash");
    std::fs::write(&file, printed(["completions", "bash"])).unwrap();
    // As bash asks for them when somebody has written so much and presses the tabulator.
    let complete = |words: &[&str]| {
        let ask = "source \"$0\" && COMP_WORDS=(\"$@\") && COMP_CWORD=$(($# - 1)) && \
                   _fulgurite fulgurite \"${COMP_WORDS[COMP_CWORD]}\" '' && echo \"${COMPREPLY[@]}\"";
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", ask]).arg(&file).args(words).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert!(std::process::Command::new("bash").arg("-n").arg(&file).status().unwrap().success());
    assert_eq!(complete(&["fulgurite", "gener"]), "generations");
    assert_eq!(complete(&["fulgurite", "model", "fe"]), "fetch");
    assert!(complete(&["fulgurite", "serve", "--"]).contains("--ready-file"));
    assert_eq!(run(["completions", "tcsh"]).code, Some(2));
}

#[test]
fn the_curves_of_runs_are_drawn_and_what_cannot_be_drawn_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(path("run-a")).unwrap();
    std::fs::write(path("run-a/metrics.jsonl"), "{\"step\":0,\"reward\":-0.5}\n{\"step\":1,\"reward\":1}\n").unwrap();
    std::fs::write(path("b.jsonl"), "{\"step\":0,\"reward\":0.25,\"why\":\"no number\"}\n").unwrap();
    let drawn = printed(["report", &path("run-a"), &path("b.jsonl"), "--svg", "reward"]);
    assert!(drawn.starts_with("<svg") && drawn.contains("run-a") && drawn.contains(">\nb\n<"), "{drawn}");
    printed(["report", &path("run-a/metrics.jsonl"), &path("b.jsonl"), "--svg", "reward", "-o", &path("c.svg")]);
    assert_eq!(std::fs::read_to_string(path("c.svg")).unwrap(), drawn);

    std::fs::write(path("broken.jsonl"), "{\"step\":0}\n{\"step\":").unwrap();
    let refused = |run: &str| curve_of(&path(run)).failure(directory.path());
    insta::assert_snapshot!(refused("b.jsonl"), @"error: [directory]/b.jsonl has no loss; it has reward, step");
    insta::assert_snapshot!(refused("none"), @r"
    error: cannot read [directory]/none
      caused by: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(refused("broken.jsonl"), @r"
    error: [directory]/broken.jsonl, line 2
      caused by: EOF while parsing a value at line 1 column 8
    ");
}

fn curve_of(of: &str) -> Ran {
    run(["report", of, "--svg", "loss"])
}

#[test]
fn a_number_of_threads_that_is_none_is_an_error() {
    let with = |threads: &str| {
        let mut command = fulgurite(["config", "show"]);
        Ran::from(command.env("TOKIO_WORKER_THREADS", threads).output().unwrap())
    };
    assert_eq!(with("3").code, Some(0));
    for wrong in ["0", "many", "-1", ""] {
        let message = with(wrong).failure("/no/such/directory".as_ref());
        assert_eq!(message, format!("error: TOKIO_WORKER_THREADS is {wrong:?}, but must be a whole number above 0\n"));
    }
}

#[test]
fn a_filter_of_the_log_that_cannot_be_read_is_an_error() {
    let with = |variables: &[(&str, &str)]| {
        let mut command = fulgurite(["config", "show"]);
        Ran::from(command.envs(variables.iter().copied()).output().unwrap())
    };
    for name in ["FULGURITE_LOG", "RUST_LOG"] {
        let message = with(&[(name, "warn,fulgurite=lots")]).failure("/no/such/directory".as_ref());
        let expected =
            format!("error: {name} is \"warn,fulgurite=lots\", which is no filter of the log\n  caused by: ");
        assert!(message.starts_with(&expected), "{message}");
    }
    assert_eq!(with(&[("FULGURITE_LOG", "warn"), ("RUST_LOG", "fulgurite=lots")]).code, Some(0));
}
