//! Recipes that are written out: whole, of the examples as they are, and standing alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{fulgurite, program, run};

const HEAD: &str =
    "//! The examples that are written out, file by file. `UPDATE_RECIPES=1 cargo nextest run init` writes this file.

/// An example that can be written out.
#[derive(Debug)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// Paths below its directory, and texts.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

macro_rules! recipe {
    ($name:literal: $($file:literal)* $(; $shared:literal from $source:literal)*) => {
        Recipe {
            name: $name,
            files: &[
                $(($file, include_str!(concat!(\"../../examples/\", $name, \"/\", $file))),)*
                $(($shared, include_str!(concat!(\"../../\", $source))),)*
            ],
        }
    };
}
";

/// The files of examples that are projects: those with a README and a config. Metrics of runs, and what a crate of ours is
/// made of, are not written out.
fn files() -> Option<BTreeMap<String, Vec<String>>> {
    let listed =
        Command::new("git").args(["ls-files", "examples"]).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in listed.lines().filter_map(|line| line.strip_prefix("examples/")) {
        let Some((name, path)) = path.split_once('/') else { continue };
        let is_curve = path.starts_with("curves/") && !path.ends_with(".svg");
        if !is_curve && !path.ends_with(".rs") && path != "Cargo.toml" {
            files.entry(name.to_owned()).or_default().push(path.to_owned());
        }
    }
    // Configs beside those of other trainers, of the checkout's model, are no project.
    files.remove("coming_from");
    files.retain(|_, files| {
        files.iter().any(|file| file == "README.md") && files.iter().any(|file| file.ends_with(".toml"))
    });
    (!files.is_empty()).then_some(files)
}

/// Files of the checkout that examples share, each by what an example that needs it says.
const SHARED: [(&str, &str, &str); 11] = [
    ("interval.py", "examples/interval.py", "interval.py"),
    ("smollm2.py", "examples/hello/smollm2.py", "hello/smollm2.py"),
    ("corpus.py", "examples/hello/corpus.py", "../hello/corpus.py"),
    ("grader.py", "examples/hello/grader.py", "../hello/grader.py"),
    ("facts.py", "examples/chat_sft/facts.py", "import facts"),
    ("talk.py", "examples/chat_sft/talk.py", "import talk"),
    ("model.py", "examples/chat_sft/model.py", "import model"),
    ("asking.py", "examples/chat_sft/asking.py", "from asking import"),
    ("eval_table.py", "examples/chat_sft/eval_table.py", "../chat_sft/eval_table.py"),
    ("fulgurite_agent.py", "python/fulgurite_agent.py", "fulgurite_agent import"),
    ("fulgurite_agent.ts", "javascript/src/agent.ts", "javascript/src/agent.js"),
];

/// Whether some file of an example says this.
fn mentions(name: &str, files: &[String], words: &str) -> bool {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    files.iter().any(|file| fs::read_to_string(directory.join(file)).unwrap().contains(words))
}

#[test]
fn every_example_that_is_a_project_can_be_written_out() {
    let Some(files) = files() else {
        eprintln!("NOT RUN: the files of recipes are compared with those that git knows, and this is no checkout");
        return;
    };
    let mut text = HEAD.to_owned();
    writeln!(text, "\n/// By their names.\npub(crate) const RECIPES: &[Recipe] = &[").unwrap();
    for (name, files) in files {
        writeln!(text, "    recipe!(\"{name}\":").unwrap();
        files.iter().for_each(|file| writeln!(text, "        \"{file}\"").unwrap());
        for (shared, source, words) in SHARED {
            if !files.iter().any(|file| file == shared) && mentions(&name, &files, words) {
                writeln!(text, "        ; \"{shared}\" from \"{source}\"").unwrap();
            }
        }
        writeln!(text, "    ),").unwrap();
    }
    text += "];\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/src/recipe_files.rs");
    if std::env::var_os("UPDATE_RECIPES").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == text,
        "UPDATE_RECIPES=1 cargo nextest run init writes {}",
        path.display()
    );
}

#[test]
fn what_is_written_out_stands_alone() {
    let directory = tempfile::tempdir().unwrap();
    let listed = run(["init"]);
    let names: Vec<&str> = listed.stdout.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let written = fulgurite(["init", name]).current_dir(directory.path()).output().unwrap();
        assert!(written.status.success(), "{name}: {written:?}");
        let printed = String::from_utf8(written.stdout).unwrap();
        assert!(printed.contains("    fulgurite "), "{name} says which command is next: {printed}");
        for entry in walkdir(&directory.path().join(name)) {
            let text = fs::read_to_string(&entry).unwrap();
            let is_config = entry.extension().is_some_and(|extension| extension == "toml");
            for elsewhere in [
                "target/debug/fulgurite",
                "../hello",
                "../chat_sft",
                "](../",
                "examples/hello",
                "cargo ",
                "../../target",
                "../interval.py",
                "[\"hello-agent\"",
                "[\"hello-grader\"",
                "[\"hello-corpus\"",
                "<!--",
                "parents[2] / \"python\"",
                "../../javascript",
            ] {
                assert!(!text.contains(elsewhere), "{}: {elsewhere}", entry.display());
            }
            if is_config {
                let shown = run(["config", "show", "--json", "--config", entry.to_str().unwrap()]);
                assert_eq!(shown.code, Some(0), "{}: {}", entry.display(), shown.stderr);
            }
        }
    }
}

/// The files below a directory.
fn walkdir(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walkdir(&path) } else { vec![path] }).collect()
}

#[test]
fn a_recipe_overwrites_nothing_and_one_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let init = |words: &[&str]| {
        let output = fulgurite(["init"]).args(words).current_dir(directory.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    fs::create_dir(directory.path().join("wordle")).unwrap();
    assert_eq!(init(&["wordle"]).0, Some(0), "an empty directory is none that is overwritten");
    assert_eq!(
        init(&["wordle"]),
        (Some(1), "error: wordle is not empty: name another directory with --output\n".into())
    );
    assert_eq!(init(&["wordle", "-o", "a/b"]).0, Some(0));
    fs::write(directory.path().join("file"), "").unwrap();
    let (code, message) = init(&["wordle", "-o", "file"]);
    assert_eq!((code, message.as_str()), (Some(1), "error: file is a file: name another directory with --output\n"));
    let (code, message) = init(&["wordel"]);
    assert_eq!(code, Some(1));
    assert!(
        message.starts_with("error: there is no recipe `wordel`; did you mean `wordle`? There are arithmetic, "),
        "{message}"
    );
    let (_, message) = init(&["shakespeare"]);
    assert!(message.starts_with("error: there is no recipe `shakespeare`. There are arithmetic, "), "{message}");
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// What the scripts of the written-out hello say is what the programs of the checkout say.
#[test]
fn hello_is_written_out_without_a_compiler_and_stays_the_same_game() {
    let directory = tempfile::tempdir().unwrap();
    let written = fulgurite(["init", "hello"]).current_dir(directory.path()).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let hello = directory.path().join("hello");
    let config = fs::read_to_string(hello.join("hello.toml")).unwrap();
    for (key, value) in [
        ("corpus", r#"["python3", "corpus.py", "--seed", "{seed}", "--count", "20000"]"#),
        ("command", r#"["python3", "warm_agent.py"]"#),
        ("warm", "true"),
        ("grade", r#"["python3", "-I", "grader.py"]"#),
    ] {
        assert!(config.contains(&format!("\n{key} = {value}\n")), "{key}: {config}");
    }
    let printed_by = |program: &mut Command| {
        let output = program.current_dir(&hello).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (seed, count) in [("1", "400"), ("18446744073709551615", "70")] {
        let words = ["--seed", seed, "--count", count];
        let script = printed_by(Command::new("python3").arg("corpus.py").args(words));
        assert!(script == printed_by(Command::new(program("hello-corpus")).args(words)), "seed {seed}");
    }
    for reply in [
        "I am 17.\n",
        "Sure, I'm 17!\n",
        "I am 17. I am 17.\n",
        "I am not 17, I am Qwen.\n",
        "I am NOT 17\n[finish_reason: length]\n",
        "I am 17. Sure\n[finish_reason: length]\n",
        "I am 170.\n",
        "I am 017.\n",
        "I am 17, not 18.\n",
        "",
    ] {
        let file = directory.path().join("reply");
        fs::write(&file, reply).unwrap();
        let grade = |program: &mut Command| -> BTreeMap<String, f64> {
            program.env("FULGURITE_TASK", "17").stdin(fs::File::open(&file).unwrap());
            serde_json::from_str(&printed_by(program)).unwrap()
        };
        let script = grade(Command::new("python3").args(["-I", "grader.py"]));
        assert_eq!(script, grade(&mut Command::new(program("hello-grader"))), "{reply}");
    }
}
