//! The documents: what they name is there, and what is made of the program or of them is as it is made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulgurite_lab::plan::table::{FitTable, usual_gpus};
use serde_json::Value;

use crate::common::{printed, run};

/// What stands between backquotes and looks like a path: folders, or a file of ours.
fn paths(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let is_plain = word.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_./-".contains(&c));
        is_plain && word.contains("/src/") && !word.contains("...")
    };
    quoted.filter(is_path).collect()
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("ARCHITECTURE.md")];
    documents.extend(std::fs::read_dir(root.join("docs/how")).unwrap().map(|entry| entry.unwrap().path()));
    let mut named = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for path in paths(&text) {
            named += 1;
            assert!(root.join(path).exists(), "{} names {path}, which is not there", document.display());
        }
        for page in text.split("](docs/how/").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(root.join("docs/how").join(page).exists(), "{page}");
        }
    }
    assert!(named > 50, "{named}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of Markdown that people read: those at the top, and below `docs`, `examples` and `.github`.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = Vec::new();
    let mut folders: Vec<PathBuf> = ["docs", "examples", ".github"].map(|name| root().join(name)).into();
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    pages.extend(std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| is_page(path)));
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_made = ["node_modules", "runs", "models", "target", "venvs", "__pycache__"].contains(&name);
            if path.is_dir() && !is_made {
                folders.push(path);
            } else if is_page(&path) {
                pages.push(path);
            }
        }
    }
    pages
}

/// A page's text without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// Where the links of a page lead.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_owned()).collect()
}

/// The anchors of a page's headings, as forges make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let plain = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = plain.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut dead = Vec::new();
    let mut followed = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            followed += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let has_anchor = || anchors(&std::fs::read_to_string(&target).unwrap()).iter().any(|known| known == anchor);
            if !target.exists() || (!anchor.is_empty() && !has_anchor()) {
                dead.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert_eq!(dead, [""; 0]);
    assert!(followed > 200, "{followed}");
}

#[test]
fn every_page_of_the_documentation_is_in_its_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).unwrap();
    let named = links(&index);
    for page in pages() {
        let Ok(path) = page.strip_prefix(root().join("docs")) else { continue };
        let path = path.to_str().unwrap();
        let is_named = named.iter().any(|link| link.split('#').next() == Some(path));
        assert!(is_named || path == "README.md", "docs/README.md does not name {path}");
    }
}

/// The names of all tests in a folder of Rust.
fn tests_below(folder: &Path, names: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name) {
            tests_below(&path, names);
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
            names.extend(functions.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_test_that_a_promise_names_is_there() {
    let mut names = BTreeSet::new();
    tests_below(root(), &mut names);
    for page in ["README.md", "docs/reference/promises.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let rows = text.lines().filter(|line| line.starts_with('|'));
        let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
        let is_test = |word: &&str| word.matches('_').count() > 3 && !word.contains('/');
        let named: Vec<&str> = quoted.filter(is_test).collect();
        assert!(named.len() > 2, "{page}: {named:?}");
        for test in named {
            assert!(names.contains(test), "{page} names {test}, which is no test");
        }
    }
}

#[test]
fn what_scripts_make_of_the_documentation_is_committed_as_they_make_it() {
    let made = ["docs/site.py", "docs/openapi.py", "docs/pictures/hello.py", "examples/coming_from/compare.py"];
    for script in made {
        let checked = Command::new("python3").arg(root().join(script)).arg("--check").output().unwrap();
        assert!(checked.status.success(), "{script}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    let page = root().join("docs/reference/commands.md");
    let made = printed(["man", "--markdown"]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&page).unwrap();
    assert!(committed == made, "fulgurite man --markdown > {}", page.display());
}

#[test]
fn every_command_has_a_page_for_man() {
    let directory = tempfile::tempdir().unwrap();
    printed(["man", "--to", directory.path().to_str().unwrap()]);
    for page in ["fulgurite.1", "fulgurite-train.1", "fulgurite-model-fetch.1", "fulgurite-store-check.1"] {
        let text = std::fs::read_to_string(directory.path().join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(printed(["man"]).contains(".TH fulgurite 1"));
}

#[test]
fn the_config_of_the_readme_is_taken() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```toml\n").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("train.toml");
    std::fs::write(&config, rest.split_once("```").unwrap().0).unwrap();
    let shown = run(["config", "show", "--json", "--config", config.to_str().unwrap()]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
}

#[test]
fn the_rows_of_hello_in_the_readme_are_those_of_its_metrics() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let metrics = std::fs::read_to_string(root().join("examples/hello/curves/hello-seed-1.jsonl")).unwrap();
    let steps: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let number = |step: &Value, name: &str| step[name].as_f64().unwrap();
    for step in [&steps[0], &steps[46]] {
        let names = ["env/all/reward/total", "test/env/all/reward/total", "test/env/all/exact"];
        let cells: String = names.iter().map(|name| format!("{:>10}", format!("{:+.3}", number(step, name)))).collect();
        let row = format!("{:>9}{}     0.0e0     0.0e0", step["step"], &cells[1..]);
        assert!(readme.contains(&row), "{row}");
    }
    let last = steps.last().unwrap();
    let after = number(last, "test/env/all/reward/total");
    assert!(readme.contains(&format!("held-out tasks after: reward {after:.3}")), "{last}");
    assert!(readme.contains(&format!("{} updates in", last["step"])), "{last}");
}

/// What stands between two lines of a page.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    text.split(from).skip(1).filter_map(|rest| Some(rest.split_once(to)?.0)).collect()
}

#[test]
fn the_table_of_models_that_fit_is_what_plan_computes() {
    let page = root().join("docs/how-to/gpus.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let made = FitTable::of(&usual_gpus()).markdown();
    let committed = between(&text, "<!-- table -->\n", "<!-- end of table -->")[0];
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&page, text.replace(committed, &made)).unwrap();
        return;
    }
    assert!(committed == made, "UPDATE_DOCS=1 writes the table of {}:\n{made}", page.display());
}

#[test]
fn every_config_of_the_page_about_gpus_is_taken() {
    let text = std::fs::read_to_string(root().join("docs/how-to/gpus.md")).unwrap();
    let configs = between(&text, "```toml\n", "```");
    assert_eq!(configs.len(), 4);
    for config in configs {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("train.toml");
        std::fs::write(&file, config).unwrap();
        let file = file.to_str().unwrap();
        let shown = run(["config", "show", "--json", "--config", file]);
        assert_eq!(shown.code, Some(0), "{config}: {}", shown.stderr);
        // What was written fits the cards that it is for.
        let table: toml::Table = toml::from_str(config).unwrap();
        let path = table["models"][0]["path"].as_str().unwrap();
        let gpu = if path.contains("1.5B") { "24GiB" } else { "8xH100" };
        let model = if path.contains("1.5B") { "Qwen2.5-1.5B" } else { path.rsplit('/').next().unwrap() };
        let plan = printed(["plan", file, "--gpu", gpu, "--model-config", model, "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&plan).unwrap()["fits"], true, "{config}: {plan}");
    }
}
