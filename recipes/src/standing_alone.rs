//! What a file of `examples/` says where it stands alone: the command is on the PATH, a shared model is made beside it, and
//! there is no `docs/` to link to.

/// Where the agent's part of the protocol for warm agents is.
const NEXT_TO_FILE: &str = "sys.path.insert(0, str(Path(__file__).resolve().parent))";

/// A file's text, as it is written out. `path` is below the recipe's directory.
pub(crate) fn standing_alone(name: &str, path: &str, text: &str) -> String {
    let in_examples = format!("examples/{name}/");
    let text = text
        .replace("cargo build && ", "")
        .replace("#     cargo build\n", "")
        .replace("no fulgurite on the PATH: cargo build", "no fulgurite on the PATH")
        .replace("../../target/debug/fulgurite", "fulgurite")
        .replace("target/debug/fulgurite", "fulgurite")
        .replace("../hello/models/", "models/")
        .replace("examples/hello/models/", "models/")
        .replace("examples/hello/smollm2.py", "smollm2.py")
        .replace("../hello/smollm2.py", "smollm2.py")
        .replace("../hello/corpus.py", "corpus.py")
        .replace("../hello/grader.py", "grader.py")
        .replace("../chat_sft/eval_table.py", "eval_table.py")
        .replace("sys.path.insert(0, str(Path(__file__).resolve().parents[2] / \"python\"))", NEXT_TO_FILE)
        .replace("../../javascript/src/agent.js", "./fulgurite_agent.js")
        .replace("../interval.py", "interval.py")
        .replace("../../target/", "venvs/")
        .replace("[\"hello-corpus\",", "[\"python3\", \"corpus.py\",")
        .replace("command = [\"hello-agent\", \"{task}\"]", "command = [\"python3\", \"warm_agent.py\"]\nwarm = true")
        .replace("grade = [\"hello-grader\"]", "grade = [\"python3\", \"-I\", \"grader.py\"]")
        .replace(&in_examples, "");
    if path.ends_with(".md") {
        without_links_up(&without_curves(&without_the_checkout(&for_a_recipe(&text), name)))
    } else {
        text
    }
}

/// Leaves out what a README says of the checkout alone, and takes in what it says of a recipe that is written out.
fn for_a_recipe(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut is_of_checkout, mut is_of_recipe) = (false, false);
    for line in text.lines() {
        match line {
            "<!-- in the checkout -->" => is_of_checkout = true,
            "<!-- up to here -->" => is_of_checkout = false,
            "<!-- in a recipe that is written out" => is_of_recipe = true,
            "-->" if is_of_recipe => is_of_recipe = false,
            _ if is_of_checkout => {}
            _ => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

/// Metrics of runs stay in the checkout: links to them become words. Pictures are written out.
fn without_curves(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some(at) = rest.find("](curves/") {
        let (before, link) = rest.split_at(at);
        let Some(end) = link.find(')') else { break };
        match (link[..end].ends_with(".jsonl"), before.rfind('[')) {
            (true, Some(open)) => plain += &format!("{}{}", &before[..open], &before[open + 1..]),
            _ => plain += &rest[..at + end + 1],
        }
        rest = &link[end + 1..];
    }
    plain + rest
}

/// Leaves out the lines of commands that build the checkout, or go to the example in it.
fn without_the_checkout(text: &str, name: &str) -> String {
    let steps = ["cargo build".to_owned(), format!("cd examples/{name}")];
    let is_step = |line: &str| line.starts_with("    ") && steps.iter().any(|step| line.trim() == step);
    text.lines().filter(|line| !is_step(line)).map(|line| format!("{line}\n")).collect()
}

/// Links to files above the recipe, as their text and where they are.
fn without_links_up(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some(at) = rest.find("](../") {
        let (before, link) = rest.split_at(at);
        let Some(end) = link.find(')') else { break };
        let target = link[2..end].trim_start_matches("../");
        match before.rfind('[').map(|open| (&before[..open], &before[open + 1..])) {
            // A link whose text is the file's name says where it is already.
            Some((lead, words)) if target.ends_with(words) => plain += &format!("{lead}{target} of Fulgurite"),
            Some((lead, words)) => plain += &format!("{lead}{words} ({target} of Fulgurite)"),
            None => plain += before,
        }
        rest = &link[end + 1..];
    }
    plain + rest
}

/// The first sentence of a README, after its title.
pub(crate) fn first_sentence(readme: &str) -> String {
    let paragraphs = readme.split("\n\n").map(str::trim);
    let first = paragraphs.filter(|paragraph| !paragraph.starts_with('#')).find(|paragraph| !paragraph.is_empty());
    let words: Vec<&str> = first.unwrap_or_default().split_whitespace().collect();
    let words = words.join(" ");
    match words.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => words,
    }
}

/// A README's commands, up to the first that are this program's.
pub(crate) fn first_commands(readme: &str) -> String {
    let is_command =
        |line: &str| ["fulgurite ", "python3 "].iter().any(|program| line.trim_start().starts_with(program));
    let blocks = readme.split("\n\n").filter(|block| block.lines().all(|line| line.starts_with("    ")));
    let blocks = blocks.filter(|block| block.lines().any(is_command));
    let mut kept = Vec::new();
    for block in blocks {
        kept.push(block.trim_end());
        if block.contains("fulgurite train") {
            break;
        }
    }
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_links_are_of_a_project_that_stands_alone() {
        let readme = "# words\n\nA game of words\nand more. Then this.\n\n    user  a word\n\n    cd examples/words\n    cargo build\n    \
            ../../target/debug/fulgurite train words.toml\n    python3 examples/hello/smollm2.py\n\n\
            See ([docs/how-to/rewards.md](../../docs/how-to/rewards.md)) and [how](../../docs/how-to/agents.md#warm).\n";
        let alone = standing_alone("words", "README.md", readme);
        insta::assert_snapshot!(alone, @r"
        # words

        A game of words
        and more. Then this.

            user  a word

            fulgurite train words.toml
            python3 smollm2.py

        See (docs/how-to/rewards.md of Fulgurite) and how (docs/how-to/agents.md#warm of Fulgurite).
        ");
        assert_eq!(first_sentence(&alone), "A game of words and more.");
        assert_eq!(first_commands(&alone), "    fulgurite train words.toml\n    python3 smollm2.py");
        assert_eq!(standing_alone("words", "a.toml", "path = \"../hello/models/m\"\n"), "path = \"models/m\"\n");
    }
}
