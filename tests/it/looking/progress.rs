//! What people see of a run while it goes on: plain lines in a pipe, more on a terminal.

use std::process::Command;

use crate::common::Ran;
use crate::common::fulgurite;
use crate::common::project::{Project, SMALL, UNEVEN};

/// Digits are as fast as the machine; what stands around them is not.
fn without_digits(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match (c.is_ascii_digit(), out.ends_with('#')) {
            (true, true) => {}
            (true, false) => out.push('#'),
            (false, _) => out.push(c),
        }
    }
    out
}

fn train(project: &Project) -> Command {
    let mut command = fulgurite(["train"]);
    command.arg(project.path("t.toml")).args(["--run-directory", "r", "--max-steps", "2"]);
    command.current_dir(project.directory.path());
    command
}

#[test]
fn a_pipe_gets_a_line_for_each_step_and_no_control_characters() {
    let project = Project::new(UNEVEN, SMALL);
    // Making the base is told of by the clock, and is not looked at here.
    project.train("first", &["--max-steps", "0"]);
    let ran = Ran::from(train(&project).output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(!ran.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.stdout);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0].starts_with("the page is at http://127.0.0.1:") && lines[0].ends_with("/#/runs/r"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("run r in ") && lines[1].ends_with("/r: at most 2 updates"), "{}", lines[1]);
    insta::assert_snapshot!(without_digits(&lines[2..7].join("\n")), @"
     step    train  held-out        kl  max diff  grad/tok     clip  seconds
        #   +#.#    +#.#     #.#e#     #.#e#     #.#    #.#      #.#
        #   +#.#         -     #.#e#     #.#e#     #.#    #.#      #.#
        #        -    +#.#         -         -         -        -      #.#
    ");
}

#[test]
fn a_run_says_what_it_resumes_from_and_what_to_type_next() {
    let project = Project::new(UNEVEN, SMALL);
    let first = Ran::from(train(&project).output().unwrap());
    let run = project.path("r").canonicalize().unwrap();
    let next = format!(
        "\nnext:\n  fulgurite chat {0}\n  fulgurite report {0} -o report.html\n  fulgurite dashboard {0}\n  \
         fulgurite model export {0} --format merged\n",
        run.display()
    );
    assert!(first.stdout.ends_with(&next), "{}", first.stdout);
    let mut command = fulgurite(["train"]);
    command.arg(project.path("t.toml")).args(["--run-directory", "r", "--max-steps", "3", "--resume"]);
    command.current_dir(project.directory.path());
    let resumed = Ran::from(command.output().unwrap());
    assert!(
        resumed.stdout.contains("/r: at most 3 updates, resuming after 2 from checkpoints/000002\n"),
        "{}",
        resumed.stdout
    );
}

#[test]
fn a_terminal_shows_what_goes_on_within_a_step() {
    let project = Project::new(UNEVEN, SMALL);
    project.train("first", &["--max-steps", "0"]);
    let command = train(&project);
    let script = "import os, pty, sys\n\
        out = open(sys.argv[1], 'wb')\n\
        def read(terminal):\n    data = os.read(terminal, 65536)\n    out.write(data)\n    return data\n\
        sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))\n";
    let seen = project.path("seen");
    let mut terminal = Command::new("python3");
    terminal.args(["-c", script]).arg(&seen).arg(command.get_program()).args(command.get_args());
    terminal.current_dir(project.directory.path()).env("TERM", "xterm").env("COLUMNS", "150");
    for (name, value) in command.get_envs() {
        if value.is_none() {
            terminal.env_remove(name);
        }
    }
    let ran = terminal.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let shown = String::from_utf8_lossy(&std::fs::read(seen).unwrap()).into_owned();
    for part in ["train rollouts of step 0", "9/9", "sequences learnt from in step 0"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Below the row of each step stands one reply, with its reward.
    let replies = shown.lines().filter(|line| line.contains("\x1b[2m") && line.contains(" -> ")).count();
    assert_eq!(replies, 2, "{shown}");
}
