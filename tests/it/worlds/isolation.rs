//! What programs in a sandbox of bubblewrap's could do to the machine: tried as root and as another user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fulgurite_runner::{Bounds, GradedAttempt, Grader, GraderSandboxOptions};
use rustix::process::geteuid;
use serde_json::{Value, json};

use super::{there_are_no_sandboxes, write};
use crate::common::Server;

/// Prints a word in capitals for each thing that it could do.
const ESCAPES: &str = r#"
exec 2>&1
mount -o remount,rw,bind /usr && touch /usr/fulgurite-escaped && echo USR_WRITABLE
cat /proc/sys/kernel/core_pattern > /tmp/pattern && cat /tmp/pattern > /proc/sys/kernel/core_pattern && echo CORE_PATTERN_WRITABLE
umount /proc/sys && echo PROC_SYS_UNCOVERED
[ -w /proc/sysrq-trigger ] && echo SYSRQ_WRITABLE
unshare -Urm true && echo NAMESPACE_MADE
mount -t tmpfs none /mnt && echo MOUNTED
mknod /tmp/node c 1 3 && echo DEVICE_MADE
chmod 666 /dev/null && echo DEVICE_CHANGED
cat /proc/1/fd/9 && echo INIT_INHERITED
[ "$(head -n 1 /etc/passwd)" ] || echo PASSWD_HIDDEN
cat <&9 && echo INHERITED
touch /usr/fulgurite-escaped /etc/passwd && echo WRITTEN
touch /fulgurite-escaped && echo ROOT_WRITABLE
touch /dev/fulgurite-escaped && echo DEV_WRITABLE
mkdir /run/fulgurite-escaped && echo RUN_WRITABLE
[ "$(id -u)" = 0 ] && echo ROOT
grep Cap /proc/self/status | grep -v CapBnd | grep -qv 0000000000000000 && echo CAPABILITIES
grep -q 'NoNewPrivs:.*1' /proc/self/status || echo GAINS_RIGHTS
echo "works: $(echo said > /dev/stderr; cat setup; echo more >> setup && echo x > "$HOME/x" && echo x > /dev/shm/x && echo x > /tmp/x && echo yes)"
cp /bin/sh shell && chmod 6755 shell
"#;

/// Uses more than it may, and prints a word in capitals for what is not kept from it.
const GREED: &str = r#"
python3 -I - <<'PY'
import os, time
children = []
try:
    for _ in range(200):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        children.append(child)
    print("PROCESSES")
except OSError:
    pass
for child in children:
    os.kill(child, 9)
PY
python3 -I -c 'held = bytearray(900 << 20); print("MEMORY")'
head -c 3000000 /dev/zero > big; [ "$(stat -c %s big)" -gt 1100000 ] && echo DISK
head -c 3000000 /dev/zero > /tmp/big && [ "$(stat -c %s /tmp/big)" -gt 1100000 ] && echo TEMPORARY
true
"#;

/// Runs a script in a sandbox below `at`, as that user; gives what it printed, and the attempt.
fn play(at: &Path, user: u32, script: &str, bounds: &str) -> (String, Value) {
    let server = Server::start(at, [""; 0]);
    write(at, "agent.sh", script);
    write(
        at,
        "grade.sh",
        "cat > said; cd \"$FULGURITE_WORLD\"; stat -c '%u %a %n' * > \"$FULGURITE_PROJECT/files\"; echo '{\"reward\": 1}'",
    );
    write(
        at,
        "c.toml",
        &format!(
            r#"
            [runner]
            setup = ["sh", "-c", "echo before > $FULGURITE_WORLD/setup"]
            command = ["bash", "{{project}}/agent.sh"]
            grade = ["sh", "{{project}}/grade.sh"]
            [runner.sandbox]
            kind = "bubblewrap"
            read = ["{{project}}/agent.sh"]
            {bounds}
            "#
        ),
    );
    server.enqueue([json!("one")], &Value::Null);
    run_as(at, user, &server);
    let attempt = server.query("attempts").pop().unwrap();
    assert_eq!(attempt["status"], "succeeded", "{attempt}");
    (fs::read_to_string(at.join("said")).unwrap(), attempt)
}

/// Has that user run what is on the queue, as the files in `at` say.
fn run_as(at: &Path, user: u32, server: &Server) {
    write(at, "secret", "of the runner\n");
    let program = at.join("fulgurite");
    if !program.exists() && fs::hard_link(env!("CARGO_BIN_EXE_fulgurite"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_fulgurite"), &program).unwrap();
    }
    let files = ["agent.sh", "c.toml", "secret"].map(|name| at.join(name)).into_iter().filter(|file| file.exists());
    for entry in files.chain([at.to_owned()]) {
        chown(entry, Some(user), Some(user)).unwrap();
    }
    // Whoever starts a runner may have left a file open.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n $(cat open-files 2> /dev/null || ulimit -n); exec \"$0\" \"$@\" 9< secret"])
        .arg(&program)
        .args(["run", "--until-idle", "--server"]);
    command.arg(&server.url).arg("--config").arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds"));
    command.current_dir(at).env("HOME", at).stdout(Stdio::null());
    if geteuid().is_root() {
        command.gid(user).uid(user);
    }
    let ran = command.stderr(Stdio::piped()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Does it as root, if these tests are root's, and as somebody else, each in a directory of its own. Where there are
/// no sandboxes it does nothing.
fn for_each_user(check: impl Fn(u32, &Path)) {
    if there_are_no_sandboxes() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let users = match geteuid().as_raw() {
        0 => vec![0, 12_345],
        own => vec![own],
    };
    for user in users {
        let at = directory.path().join(user.to_string());
        fs::create_dir(&at).unwrap();
        check(user, &at);
    }
}

#[test]
fn no_agent_gets_out_of_its_sandbox_whoever_its_runner_is() {
    for_each_user(|user, at| {
        let (output, _) = play(at, user, &format!("{ESCAPES}\necho '{{\"reward\": 1}}'"), "");
        let escaped: Vec<&str> = output.lines().filter(|line| is_a_word(line)).collect();
        assert!(escaped.is_empty(), "as {user}: {escaped:?}\n{output}");
        assert!(output.contains("works: before\nyes"), "as {user}: {output}");
        assert!(!Path::new("/usr/fulgurite-escaped").exists());
        let files = fs::read_to_string(at.join("files")).unwrap();
        assert!(files.contains(&format!("{user} 644 setup")), "what the agent leaves is the runner's: {files}");
        let kept = if user == 0 { "0 755 shell" } else { "shell" };
        assert!(files.contains(kept), "nothing that an agent leaves runs as root: {files}");
        assert_eq!(fs::read_dir(at.join("worlds")).unwrap().count(), 1, "worlds are removed");
    });
}

#[test]
fn no_agent_uses_more_than_its_sandbox_may() {
    let bounds = "processes = 60\nmemory_bytes = 500000000\ndisk_bytes = 1000000";
    for_each_user(|user, at| {
        let (output, _) = play(at, user, &format!("{GREED}\necho '{{\"reward\": 1}}'"), bounds);
        let exceeded: Vec<&str> = output.lines().filter(|line| is_a_word(line)).collect();
        assert!(exceeded.is_empty(), "as {user}: {exceeded:?}");
    });
}

/// What agents do to their worlds so that nobody can look at them, grade in them or take them away.
const SABOTAGE: [&str; 9] = [
    "mkdir -p logs/deep; echo x > answer; chmod 000 answer logs/deep logs; chmod 000 .",
    "mkdir logs; mkfifo logs/reward.json; chmod 555 logs .",
    "mkdir -p logs/reward.json/x; chmod 000 logs/reward.json",
    "mkdir logs; chmod 111 logs; chmod 300 .",
    "mkdir logs; ln -s /etc/hostname logs/reward.json",
    "ln -s /etc logs",
    "touch logs",
    "mkdir logs; truncate -s 10G logs/reward.json",
    "mkdir logs; echo 1e999 > logs/reward.json; rm -rf \"$HOME\"/* .[a-z]*",
];

#[test]
fn an_agent_that_breaks_its_own_world_is_graded_all_the_same_or_fails_by_itself() {
    for_each_user(|user, at| {
        let server = Server::start(at, [""; 0]);
        let config = "[runner]\ncommand = [\"bash\", \"-c\", \"{task}\"]\nreward_file = \"logs/reward.json\"\n";
        let sandbox = "sandbox = { kind = \"bubblewrap\" }\n";
        let grade = "grade = [\"sh\", \"-ec\", \"cd {world}; cat answer 2>&1 || test ! -e answer; mkdir -p logs; echo 0.25 > logs/reward.json\"]\n";
        for (keys, expected) in [
            (format!("{config}{grade}{sandbox}"), json!(["succeeded", null])),
            (format!("{config}{sandbox}"), json!(["failed", "agent"])),
        ] {
            write(at, "c.toml", &keys);
            server.enqueue(SABOTAGE.map(|script| json!(script)), &Value::Null);
            run_as(at, user, &server);
            let attempts = server.query("attempts");
            for attempt in &attempts[attempts.len() - SABOTAGE.len()..] {
                let ended = json!([attempt["status"], attempt["metadata"]["fault"]]);
                assert_eq!(ended, expected, "as {user}: {attempt}");
            }
        }
        let rewards: Vec<Value> = server.query("rollouts").iter().map(|rollout| rollout["reward"].clone()).collect();
        assert_eq!(
            rewards,
            [vec![json!(0.25); SABOTAGE.len()], vec![Value::Null; SABOTAGE.len()]].concat(),
            "as {user}"
        );
        assert_eq!(fs::read_dir(at.join("worlds")).unwrap().count(), 1, "worlds are removed");
    });
}

/// Holds as many connections as it gets, to the forwarder and past it to the door, and asks for the models once it has let go.
const HOLDING: &str = r#"
import os, resource, socket, time, urllib.request
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
base, held = os.environ["OPENAI_BASE_URL"], []
for family, address in [(socket.AF_UNIX, "/run/fulgurite/proxy.sock"), (socket.AF_INET, ("127.0.0.1", int(base.split(":")[2].split("/")[0])))]:
    try:
        while len(held) < 300:
            held.append(socket.socket(family))
            held[-1].settimeout(1)
            held[-1].connect(address)
    except OSError:
        held.pop().close()
del held
for patience in range(100):
    try:
        print(urllib.request.urlopen(base + "/models", timeout=20).status)
        break
    except OSError:
        time.sleep(0.1)
"#;

#[test]
fn an_agent_that_holds_connections_takes_no_files_that_its_runner_needs() {
    for_each_user(|user, at| {
        let server = Server::start(at, [""; 0]);
        write(at, "open-files", "64");
        let grade = "grade = [\"sh\", \"-c\", \"grep -q 200 && echo '{\\\"reward\\\": 1}'\"]\n";
        let sandbox = "sandbox = { kind = \"bubblewrap\" }\n";
        write(
            at,
            "c.toml",
            &format!("[runner]\ncommand = [\"env\", \"python3\", \"-c\", \"{{task}}\"]\n{grade}{sandbox}"),
        );
        server.enqueue([json!(HOLDING)], &Value::Null);
        run_as(at, user, &server);
        let attempt = server.query("attempts").pop().unwrap();
        assert_eq!(attempt["status"], "succeeded", "as {user}: {attempt}");
    });
}

/// Writes many files, none of which is too large, where its runner cannot look without opening.
const GROWING: &str =
    "mkdir hidden; chmod 300 hidden; for n in $(seq 100); do head -c 900000 /dev/zero > hidden/$n; done; sleep 600";

#[test]
fn an_agent_whose_world_outgrows_its_bound_is_stopped_and_fails_by_itself() {
    for_each_user(|user, at| {
        let server = Server::start(at, [""; 0]);
        let sandbox = "sandbox = { kind = \"bubblewrap\", disk_bytes = 1000000 }\n";
        write(at, "c.toml", &format!("[runner]\ncommand = [\"bash\", \"-c\", \"{{task}}\"]\n{sandbox}"));
        server.enqueue([json!(GROWING)], &Value::Null);
        run_as(at, user, &server);
        let attempt = server.query("attempts").pop().unwrap();
        let reason = attempt["metadata"]["reason"].as_str().unwrap();
        let expected = "agent was stopped because its world outgrew [runner.sandbox] disk_bytes: it grew by ";
        assert!(reason.starts_with(expected) && attempt["metadata"]["fault"] == "agent", "as {user}: {attempt}");
        assert_eq!(fs::read_dir(at.join("worlds")).unwrap().count(), 1, "worlds are removed");
    });
}

fn is_a_word(line: &str) -> bool {
    line.split(' ')
        .next()
        .is_some_and(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
}

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn a_grader_in_a_sandbox_reads_what_it_is_shown_and_neither_writes_nor_calls() {
    if there_are_no_sandboxes() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // They are closed to others than their user.
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [project, shown, hidden] = directories.each_ref().map(|directory| directory.path().canonicalize().unwrap());
    for directory in [&project, &shown, &hidden] {
        fs::write(directory.join("file"), "x").unwrap();
    }
    let script = format!(
        "cat > /dev/null; cat file {shown}/file > /dev/null && echo 'read' >&2
         cat {hidden}/file 2> /dev/null && echo 'hidden' >&2
         touch {project}/new {shown}/new 2> /dev/null && echo 'written' >&2
         bash -c 'exec 3<> /dev/tcp/127.0.0.1/{port}' 2> /dev/null && echo 'called' >&2
         test -z \"$CARGO_MANIFEST_DIR\" || echo 'environment' >&2
         test \"$FULGURITE_ROLLOUT_ID\" = ro-1 && echo 'variables' >&2
         grep -q 'CapEff.*0000000000000000' /proc/self/status && echo 'powerless' >&2
         exit 9",
        shown = shown.display(),
        hidden = hidden.display(),
        project = project.display(),
    );
    let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
    let task = json!(1);
    let attempt = GradedAttempt { rollout_id: "ro-1", attempt_id: "at-1", task: &task, output: b"" };
    let failure =
        |grader: Grader| in_a_runtime(grader.grade(&attempt, Duration::from_secs(600))).unwrap_err().to_string();
    let open = failure(Grader::find(&command, Some(project.clone())).unwrap());
    assert!(open.contains("read\nhidden\nwritten\ncalled\n"), "{open}");
    fs::remove_file(project.join("new")).unwrap();
    let options = GraderSandboxOptions {
        readable: vec![shown],
        bounds: Bounds::default(),
        own_program: env!("CARGO_BIN_EXE_fulgurite").into(),
    };
    let kept = failure(Grader::find(&command, Some(project)).unwrap().in_sandbox(options).unwrap());
    assert!(kept.ends_with("read\nvariables\npowerless"), "{kept}");
}

#[test]
fn a_sandbox_that_would_not_hold_is_refused_before_any_agent_runs() {
    if there_are_no_sandboxes() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(
        at,
        "c.toml",
        "[runner]\ncommand = [\"true\"]\nsandbox = { kind = \"bubblewrap\", arguments = [\"--bind\", \"/proc\", \"/proc\", \
         \"--no-such-argument\"] }\n",
    );
    let mut command = crate::common::fulgurite(["run", "--server", "http://127.0.0.1:9", "--config"]);
    let ran = command.arg(at.join("c.toml")).arg("--worlds").arg(at.join("worlds")).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success(), "{errors}");
    assert!(
        errors.contains("no sandbox is made here that holds: bwrap: Unknown option --no-such-argument"),
        "{errors}"
    );
}
