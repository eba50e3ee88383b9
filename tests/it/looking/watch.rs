//! `fulgurite watch` on a terminal, and where there is none.

use std::process::Command;

use crate::common::project::{Project, SMALL, UNEVEN};
use crate::common::{Ran, fulgurite};

#[test]
fn a_run_is_drawn_on_a_terminal_until_a_key_ends_it() {
    let project = Project::new(UNEVEN, SMALL);
    project.train("runs/one", &["--max-steps", "2"]);
    // Presses tab once something is drawn, and q once another metric is.
    let script = "import os, pty, sys\n\
        pid, terminal = pty.fork()\n\
        if pid == 0:\n    os.execv(sys.argv[1], sys.argv[1:])\n\
        import fcntl, struct, termios\n\
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 120, 0, 0))\n\
        seen, keys = b'', [(b'(1/', b'\\t'), (b'2', b'q')]\n\
        while True:\n\
        \x20   try:\n        data = os.read(terminal, 65536)\n\
        \x20   except OSError:\n        break\n\
        \x20   if not data: break\n\
        \x20   seen += data\n\
        \x20   if keys and keys[0][0] in seen:\n        os.write(terminal, keys.pop(0)[1]); drawn, seen = seen, b''\n\
        sys.stdout.buffer.write(drawn + seen)\n\
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";
    let watch = fulgurite(["watch", "one"]);
    let mut terminal = Command::new("python3");
    terminal.args(["-c", script]).arg(watch.get_program()).args(watch.get_args());
    terminal.current_dir(project.directory.path()).env("TERM", "xterm-256color");
    let ran = terminal.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    // The terminal is left as it was: the other screen is closed.
    assert!(shown.contains("\x1b[?1049l"), "{shown:?}");

    let piped = fulgurite(["watch", "one"]).current_dir(project.directory.path()).output().unwrap();
    insta::assert_snapshot!(Ran::from(piped).failure(project.directory.path()), @"error: this is no terminal to draw on: `fulgurite runs show one` prints the run once, and `fulgurite doctor` what is amiss");
}
