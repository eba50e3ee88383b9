//! What a machine can do: processors, memory, GPUs, disk, sandboxes, Python's packages, ports.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fulgurite_engine::available_memory;
use serde::Serialize;

use crate::plan::gpu::{Gpus, gibibytes};

/// Ports that servers listen at unless they are told otherwise.
const PORTS: [(u16, &str); 3] = [(4747, "fulgurite serve"), (8000, "vLLM"), (30_000, "SGLang")];
/// Packages of Python that learners and hosts need, and what installs each.
const PACKAGES: [(&str, &str); 6] = [
    ("fulgurite", "pip install fulgurite"),
    ("torch", "pip install torch"),
    ("transformers", "pip install transformers"),
    ("peft", "pip install peft"),
    ("vllm", "pip install vllm"),
    ("sglang", "pip install sglang"),
];
/// Commits after which the disk's time is known.
const SYNCS: usize = 9;
/// Above this many milliseconds a commit, the disk is what calls wait for.
const SLOW_SYNC: f64 = 20.0;

/// Something that a machine has or lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineFact {
    /// What it is.
    pub name: String,
    /// Whether it is there.
    pub state: FactState,
    /// What there is, or what it is missing for.
    pub found: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactState {
    /// It is.
    Ok,
    /// It is not, and something cannot be done without it.
    Missing,
    /// It is there, and stands in the way of something.
    Warning,
}

impl MachineFact {
    fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), state: FactState::Ok, found: found.into(), command: None }
    }

    fn missing(name: impl Into<String>, found: impl Into<String>, command: impl Into<String>) -> Self {
        Self { name: name.into(), state: FactState::Missing, found: found.into(), command: Some(command.into()) }
    }

    fn warning(name: impl Into<String>, found: impl Into<String>, command: impl Into<String>) -> Self {
        Self { state: FactState::Warning, ..Self::missing(name, found, command) }
    }
}

/// Everything about this machine; `directory` is where runs would be.
pub fn machine_facts(directory: &Path) -> Vec<MachineFact> {
    let mut facts = vec![cores(), memory(), processor_flags(), gpus(), disk(directory)];
    facts.extend(sandboxes());
    facts.extend(python(directory));
    facts.extend(PORTS.map(|(port, program)| port_fact(port, program)));
    facts
}

fn cores() -> MachineFact {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    MachineFact::ok("cores", cores.to_string())
}

fn memory() -> MachineFact {
    let available = available_memory().map_or_else(|| "unknown".to_owned(), gibibytes);
    MachineFact::ok("memory", format!("{available} available"))
}

fn processor_flags() -> MachineFact {
    let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") else {
        return MachineFact::ok("processor", "unknown: /proc/cpuinfo cannot be read");
    };
    match flags_of(&text) {
        flags if flags.is_empty() => {
            MachineFact::ok("processor", "none of AVX2, AVX-512, bfloat16: the engine is slow here")
        }
        flags => MachineFact::ok("processor", flags.join(", ")),
    }
}

fn flags_of(cpuinfo: &str) -> Vec<&'static str> {
    let line =
        cpuinfo.lines().find(|line| line.starts_with("flags") || line.starts_with("Features")).unwrap_or_default();
    let known = [
        ("avx2", "AVX2"),
        ("fma", "FMA"),
        ("avx512f", "AVX-512"),
        ("avx512_bf16", "AVX-512 bfloat16"),
        ("amx_bf16", "AMX bfloat16"),
        ("asimd", "NEON"),
        ("bf16", "bfloat16"),
    ];
    let has = |flag: &str| line.split_whitespace().any(|word| word == flag);
    known.into_iter().filter(|(flag, _)| has(flag)).map(|(_, name)| name).collect()
}

fn gpus() -> MachineFact {
    match Gpus::of_this_machine() {
        Some(gpus) => MachineFact::ok("gpu", gpus.text()),
        None => MachineFact::missing(
            "gpu",
            "nvidia-smi finds none: small models train on the processors",
            "fulgurite plan --gpu 24GiB",
        ),
    }
}

/// The median time of a small write that reaches the disk, as each commit of the store is.
fn disk(directory: &Path) -> MachineFact {
    match sync_time(directory) {
        Ok(time) => {
            let milliseconds = time.as_secs_f64() * 1e3;
            let found = format!("{milliseconds:.2} ms a commit in {}", directory.display());
            if milliseconds < SLOW_SYNC {
                return MachineFact::ok("disk", found);
            }
            MachineFact::warning(
                "disk",
                format!("{found}: model calls wait for it"),
                "[run] directory = \"a faster disk\"",
            )
        }
        Err(error) => {
            let found = format!("{} cannot be written: {error}", directory.display());
            MachineFact::missing("disk", found, "[run] directory = \"a directory of yours\"")
        }
    }
}

fn sync_time(directory: &Path) -> std::io::Result<Duration> {
    let path = directory.join(format!(".fulgurite-doctor-{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    let mut measure = || -> std::io::Result<Vec<Duration>> {
        let once = |_| {
            let start = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            Ok(start.elapsed())
        };
        (0..SYNCS).map(once).collect()
    };
    let times = measure();
    std::fs::remove_file(&path)?;
    let mut times = times?;
    times.sort();
    Ok(times[SYNCS / 2])
}

fn sandboxes() -> [MachineFact; 3] {
    let walls = ["--ro-bind", "/", "/", "--unshare-all", "true"];
    let bubblewrap = match (prints("bwrap", &["--version"]), prints("bwrap", &walls)) {
        (Some(version), Some(_)) => MachineFact::ok("bwrap", version),
        (Some(version), None) => MachineFact::warning(
            "bwrap",
            format!("{version}, but it may not make namespaces here: no sandbox = \"bubblewrap\""),
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (None, _) => MachineFact::missing("bwrap", "for sandboxes of agents and graders", "apt-get install bubblewrap"),
    };
    let container = |name: &str, install: &str| match prints(name, &["version", "--format", "{{.Server.Version}}"]) {
        Some(version) => MachineFact::ok(name, version),
        None if prints(name, &["--version"]).is_some() => {
            MachineFact::warning(name, "it is installed, and does not answer", format!("{name} info"))
        }
        None => MachineFact::missing(name, "for agents in containers", install),
    };
    [bubblewrap, container("docker", "apt-get install docker.io"), container("podman", "apt-get install podman")]
}

/// What a command prints first, if it succeeds.
fn prints(program: &str, arguments: &[&str]) -> Option<String> {
    let run = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    run.status.success().then(|| String::from_utf8_lossy(&run.stdout).lines().next().unwrap_or_default().to_owned())
}

/// The packages of the interpreter that is found first: that of `.venv`, or the one on the PATH.
fn python(directory: &Path) -> Vec<MachineFact> {
    let own = directory.join(".venv/bin/python");
    let interpreter = if own.exists() { own } else { PathBuf::from("python3") };
    let names: Vec<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
    let script = "import sys, importlib.metadata as m\n\
        print(sys.version.split()[0])\n\
        for name in sys.argv[1:]:\n\
        \x20   try: print(name, m.version(name))\n\
        \x20   except m.PackageNotFoundError: print(name)\n";
    let run = Command::new(&interpreter).args(["-I", "-c", script]).args(names).stdin(Stdio::null()).output();
    let Some(run) = run.ok().filter(|run| run.status.success()) else {
        return vec![MachineFact::missing(
            "python",
            "for agents in Python and the learner in PyTorch",
            "apt-get install python3-venv",
        )];
    };
    packages_of(&interpreter.display().to_string(), &String::from_utf8_lossy(&run.stdout))
}

fn packages_of(interpreter: &str, listing: &str) -> Vec<MachineFact> {
    let mut lines = listing.lines();
    let version = lines.next().unwrap_or_default();
    let mut facts = vec![MachineFact::ok("python", format!("{version} ({interpreter})"))];
    facts.extend(lines.map(|line| match line.split_once(' ') {
        Some((name, version)) => MachineFact::ok(name, version),
        None => {
            let install = PACKAGES.iter().find(|(name, _)| *name == line).map_or("pip install", |(_, install)| install);
            MachineFact::missing(line, format!("not in {interpreter}"), format!("{interpreter} -m {install}"))
        }
    }));
    facts
}

fn port_fact(port: u16, program: &str) -> MachineFact {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => MachineFact::ok(format!("port {port}"), format!("free, for {program}")),
        Err(error) => MachineFact::warning(
            format!("port {port}"),
            format!("{program} cannot listen there: {error}"),
            format!("ss -ltnp 'sport = :{port}'"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_whole_words() {
        assert_eq!(flags_of("flags\t\t: fpu avx2 avx512f avx512_bf16"), ["AVX2", "AVX-512", "AVX-512 bfloat16"]);
        assert_eq!(flags_of("Features : asimd bf16"), ["NEON", "bfloat16"]);
        assert!(flags_of("").is_empty());
    }

    #[test]
    fn a_package_that_is_missing_has_the_command_that_installs_it() {
        let facts = packages_of("python3", "3.12.1\ntorch 2.11.0\npeft\n");
        assert_eq!((facts[1].name.as_str(), facts[1].state), ("torch", FactState::Ok));
        assert_eq!(facts[2].command.as_deref(), Some("python3 -m pip install peft"));
    }

    #[test]
    fn a_port_that_is_taken_and_a_disk_that_is_not_there_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let in_use = port_fact(listener.local_addr().unwrap().port(), "vLLM");
        assert_eq!(in_use.state, FactState::Warning);
        assert_eq!(disk(Path::new("/no/such/directory")).state, FactState::Missing);
        let directory = tempfile::tempdir().unwrap();
        assert!(sync_time(directory.path()).is_ok());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
