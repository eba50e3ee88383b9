//! Files as people publish them: their rows' shape is found, and they train without a key that says it.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::common::data_project::write_table;
use crate::common::project::weights;
use crate::common::{Ran, fulgurite, tiny_model};

/// Makes a row by its number.
type Row<'a> = &'a dyn Fn(usize) -> Value;

/// A directory with a model, and configs that learn from a file in it.
struct Published {
    directory: tempfile::TempDir,
    /// Further keys of its model.
    of_model: Cell<&'static str>,
}

impl Published {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        tiny_model(directory.path(), 1024);
        Self { directory, of_model: Cell::default() }
    }

    fn with_tools(&self) {
        self.of_model.set("tools = \"preamble\"\n");
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, objective: &str, file: &str, keys: &str, arguments: &[&str]) -> Command {
        let key = if objective == "sft" { "conversations" } else { "comparisons" };
        let config = format!(
            "[run]\nname = \"p\"\n[[models]]\nname = \"tiny\"\nbackend = \"embedded\"\npath = \"model\"\n{}[trainer]\n\
             objective = \"{objective}\"\nbatch_size = 4\nlearning_rate = 1e-2\nsource = {{ {key} = \"{file}\"{keys} }}\n",
            self.of_model.get()
        );
        std::fs::write(self.path().join("p.toml"), config).unwrap();
        let mut command = fulgurite(["train"]);
        let run = tempfile::tempdir_in(self.path()).unwrap().keep();
        command.args(arguments).arg(self.path().join("p.toml")).arg("--run-directory").arg(run.join("run"));
        command
    }

    /// The weights that come of a file.
    fn trained(&self, objective: &str, file: &str, keys: &str) -> Vec<u8> {
        let ran = Ran::from(self.command(objective, file, keys, &["--json"]).output().unwrap());
        weights(ran.json_lines().last().unwrap())
    }

    fn refused(&self, objective: &str, file: &str, keys: &str) -> String {
        let ran = Ran::from(self.command(objective, file, keys, &[]).output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        ran.stderr
    }

    /// What a person is shown of a run.
    fn shown(&self, objective: &str, file: &str) -> String {
        let ran = Ran::from(self.command(objective, file, "", &[]).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout + &ran.stderr
    }

    fn write(&self, name: &str, row: impl Fn(usize) -> Value) {
        let rows: String = (0..8).map(|n| format!("{}\n", row(n))).collect();
        std::fs::write(self.path().join(name), rows).unwrap();
    }
}

fn message(role: &str, content: String) -> Value {
    json!({ "role": role, "content": content })
}

fn texts(n: usize) -> [String; 2] {
    [format!("Say {n}."), format!("It is {n}.")]
}

fn messages(n: usize) -> Value {
    let [user, assistant] = texts(n);
    json!([message("user", user), message("assistant", assistant)])
}

#[test]
fn conversations_of_each_published_shape_train_as_messages_do() {
    let published = Published::new();
    published.write("messages.jsonl", |n| json!({ "messages": messages(n) }));
    let expected = published.trained("sft", "messages.jsonl", "");
    let turns = |n: usize, names: [&str; 2]| {
        let [user, assistant] = texts(n);
        json!([{ "from": names[0], "value": user }, { "from": names[1], "value": assistant }])
    };
    let shapes: [(&str, &str, Row<'_>); 8] = [
        (
            "ultrachat.jsonl",
            "messages",
            &|n| json!({ "prompt": texts(n)[0], "prompt_id": "x", "messages": messages(n) }),
        ),
        ("sharegpt.jsonl", "ShareGPT", &|n| json!({ "id": n, "conversations": turns(n, ["human", "gpt"]) })),
        ("bing.jsonl", "ShareGPT", &|n| json!({ "conversation": turns(n, ["user", "bing"]), "system": "" })),
        ("trl.jsonl", "prompts with completions", &|n| json!({ "prompt": texts(n)[0], "completion": texts(n)[1] })),
        (
            "trl_messages.jsonl",
            "prompts with completions",
            &|n| json!({ "prompt": [messages(n)[0]], "completion": [messages(n)[1]] }),
        ),
        ("alpaca.jsonl", "Alpaca", &|n| json!({ "instruction": texts(n)[0], "input": "", "output": texts(n)[1] })),
        (
            "dolly.jsonl",
            "Alpaca",
            &|n| json!({ "instruction": texts(n)[0], "context": "", "response": texts(n)[1], "category": "open_qa" }),
        ),
        (
            "nulls.jsonl",
            "ShareGPT",
            &|n| json!({ "messages": null, "prompt": null, "conversations": turns(n, ["human", "assistant"]) }),
        ),
    ];
    for (file, shape, row) in shapes {
        published.write(file, row);
        assert!(published.trained("sft", file, "") == expected, "{file}");
        let shown = published.shown("sft", file);
        let line = shown.lines().find(|line| line.contains("rows of ")).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains(file) && line.contains(shape), "{line}");
    }
}

#[test]
fn a_prompt_is_read_and_its_completion_trained() {
    let published = Published::new();
    // Weights of 0 leave out what a prompt's assistant said.
    let turns = |n: usize| {
        let [user, assistant] = texts(n);
        [
            message("user", "Hello.".to_owned()),
            message("assistant", "Hi.".to_owned()),
            message("user", user),
            message("assistant", assistant),
        ]
    };
    published.write("messages.jsonl", |n| {
        let mut turns = turns(n);
        turns[1]["weight"] = json!(0);
        json!({ "messages": turns })
    });
    published.write("trl.jsonl", |n| json!({ "prompt": turns(n)[..3], "completion": turns(n)[3..] }));
    assert!(published.trained("sft", "trl.jsonl", "") == published.trained("sft", "messages.jsonl", ""));
}

#[test]
fn tools_are_a_list_or_text_and_sharegpts_calls_are_calls() {
    let published = Published::new();
    let tool = json!({ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": {} } });
    let wrapped = json!([{ "type": "function", "function": tool }]);
    let call = json!({ "name": "look", "arguments": { "at": 1 } });
    let messages = json!([
        message("user", "Look.".to_owned()),
        { "role": "assistant", "content": null, "tool_calls": [{ "type": "function", "function": call }] },
        message("tool", "a tree".to_owned()),
        message("assistant", "A tree.".to_owned()),
    ]);
    published.write("list.jsonl", |_| json!({ "messages": messages, "tools": wrapped }));
    published.write("text.jsonl", |_| json!({ "messages": messages, "tools": wrapped.to_string() }));
    published.write("sharegpt.jsonl", |_| {
        json!({ "tools": json!([tool]).to_string(), "conversations": [
            { "from": "human", "value": "Look." }, { "from": "function_call", "value": call.to_string() },
            { "from": "observation", "value": "a tree" }, { "from": "gpt", "value": "A tree." } ] })
    });
    // The test's model has no words for tools of its own.
    published.with_tools();
    let expected = published.trained("sft", "list.jsonl", "");
    assert!(published.trained("sft", "text.jsonl", "") == expected);
    assert!(published.trained("sft", "sharegpt.jsonl", "") == expected);
}

#[test]
fn comparisons_of_each_published_shape_train_alike() {
    let published = Published::new();
    let bad = |n: usize| format!("No {n}.");
    let whole = |n: usize, last: String| json!([messages(n)[0], message("assistant", last)]);
    published.write("pairs.jsonl", |n| json!({ "prompt": texts(n)[0], "chosen": texts(n)[1], "rejected": bad(n) }));
    let expected = published.trained("dpo", "pairs.jsonl", "");
    let transcript = |n: usize, last: String| format!("\n\nHuman: {}\n\nAssistant: {last}", texts(n)[0]);
    let shapes: [(&str, Row<'_>); 5] = [
        (
            "messages.jsonl",
            &|n| json!({ "prompt": [messages(n)[0]], "chosen": [messages(n)[1]], "rejected": [message("assistant", bad(n))] }),
        ),
        ("implicit.jsonl", &|n| json!({ "chosen": messages(n), "rejected": whole(n, bad(n)) })),
        ("ultrafeedback.jsonl", &|n| {
            json!({ "prompt": texts(n)[0], "prompt_id": "x", "chosen": messages(n), "rejected": whole(n, bad(n)),
                "messages": messages(n), "score_chosen": 8.0, "score_rejected": 1.0 })
        }),
        ("hh.jsonl", &|n| json!({ "chosen": transcript(n, texts(n)[1].clone()), "rejected": transcript(n, bad(n)) })),
        ("sharegpt.jsonl", &|n| {
            json!({ "conversations": [{ "from": "human", "value": texts(n)[0] }],
                "chosen": { "from": "gpt", "value": texts(n)[1] }, "rejected": { "from": "gpt", "value": bad(n) } })
        }),
    ];
    for (file, row) in shapes {
        published.write(file, row);
        assert!(published.trained("dpo", file, "") == expected, "{file}");
    }
    assert!(
        published.shown("dpo", "hh.jsonl").contains("hh.jsonl are comparisons: `chosen` is better than `rejected`")
    );
    // Texts that begin alike: what they share is the prompt.
    published
        .write("shared.jsonl", |n| json!({ "chosen": format!("Say {n}. yes"), "rejected": format!("Say {n}. no") }));
    published.write("apart.jsonl", |n| json!({ "prompt": format!("Say {n}."), "chosen": "yes", "rejected": "no" }));
    assert!(published.trained("dpo", "shared.jsonl", "") == published.trained("dpo", "apart.jsonl", ""));
    // KTO's answers, as texts and as messages.
    published.write("kto.jsonl", |n| json!({ "prompt": texts(n)[0], "completion": texts(n)[1], "label": n % 2 == 0 }));
    published.write(
        "kto_messages.jsonl",
        |n| json!({ "prompt": [messages(n)[0]], "completion": [messages(n)[1]], "label": n % 2 == 0 }),
    );
    let kto = published.trained("kto", "kto.jsonl", "");
    assert!(published.trained("kto", "kto_messages.jsonl", "") == kto && kto != expected);
}

#[test]
fn a_form_chooses_where_two_fit_and_rows_of_two_shapes_are_refused_by_line() {
    let published = Published::new();
    published.write("messages.jsonl", |n| json!({ "messages": messages(n) }));
    let expected = published.trained("sft", "messages.jsonl", "");
    published.write("both.jsonl", |n| json!({ "messages": messages(n), "instruction": "x", "output": "y" }));
    let message = published.refused("sft", "both.jsonl", "");
    assert!(
        message.contains(
            "both.jsonl line 1: is in two shapes, `messages` and beside them Alpaca's `instruction` and `output`"
        ),
        "{message}"
    );
    assert!(published.trained("sft", "both.jsonl", ", form = \"messages\"") == expected);
    let mixed = format!("{}\n\n{}\n", json!({ "messages": messages(1) }), json!({ "prompt": "a", "completion": "b" }));
    std::fs::write(published.path().join("mixed.jsonl"), mixed).unwrap();
    let message = published.refused("sft", "mixed.jsonl", "");
    assert!(
        message.contains("mixed.jsonl line 3: is in the shape of `prompt` and `completion`, and the first row"),
        "{message}"
    );
    published.write(
        "pairs.jsonl",
        |n| json!({ "prompt": texts(n)[0], "chosen": "yes", "rejected": "no", "completion": "yes", "label": true }),
    );
    let message = published.refused("dpo", "pairs.jsonl", "");
    assert!(
        message.contains("pairs.jsonl line 1: is in two shapes, `chosen` and `rejected` and beside them"),
        "{message}"
    );
    published.trained("dpo", "pairs.jsonl", ", form = \"pairs\"");
    let message = published.refused("sft", "pairs.jsonl", ", form = \"pairs\"");
    assert!(message.contains("source.form is \"pairs\", which is of source.comparisons"), "{message}");
    published.write("pairs.jsonl", |n| json!({ "prompt": texts(n)[0], "chosen": "yes", "rejected": "no" }));
    let message = published.refused("sft", "pairs.jsonl", "");
    assert!(message.contains("pairs.jsonl line 1: is a comparison") && message.contains("\"dpo\""), "{message}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn lists_tables_and_compressed_files_train_as_lines_do() {
    let published = Published::new();
    let row = |n: usize| json!({ "instruction": texts(n)[0], "input": "", "output": texts(n)[1] });
    published.write("alpaca.jsonl", row);
    let expected = published.trained("sft", "alpaca.jsonl", "");
    let lines = std::fs::read(published.path().join("alpaca.jsonl")).unwrap();
    let list = serde_json::to_vec_pretty(&(0..8).map(row).collect::<Vec<_>>()).unwrap();
    let columns = ["instruction", "input", "output"];
    let column = |name: &&'static str| {
        let values = (0..8).map(|n| row(n)[*name].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        (*name, values)
    };
    write_table(&published.path().join("alpaca.parquet"), &columns.iter().map(column).collect::<Vec<_>>());
    for (name, bytes) in [
        ("alpaca.json", list.clone()),
        ("alpaca.jsonl.gz", gzip(&lines)),
        ("alpaca.json.gz", gzip(&list)),
        ("alpaca.jsonl.zst", compress_to_vec(lines.as_slice(), CompressionLevel::Fastest)),
        ("alpaca.json.zst", compress_to_vec(list.as_slice(), CompressionLevel::Fastest)),
        ("windows.jsonl", String::from_utf8(lines.clone()).unwrap().replace('\n', "\r\n").into_bytes()),
    ] {
        std::fs::write(published.path().join(name), bytes).unwrap();
        assert!(published.trained("sft", name, "") == expected, "{name}");
    }
    assert!(published.trained("sft", "alpaca.parquet", "") == expected);
}

#[test]
fn a_hostile_file_is_refused_with_its_place_and_never_panics() {
    let published = Published::new();
    let good = json!({ "messages": messages(1) }).to_string();
    let deep = |open: &str, close: &str| format!("{{\"messages\": {}{}}}", open.repeat(100_000), close.repeat(100_000));
    for (name, bytes, expected) in [
        (
            "long.jsonl",
            format!("{good}\n\"{}\"\n", "x".repeat(17 << 20)).into_bytes(),
            "long.jsonl line 2: is longer than 16 MiB",
        ),
        (
            "long.json",
            format!("[{good}, \"{}\"]", "x".repeat(17 << 20)).into_bytes(),
            "long.json row 2: is longer than 16 MiB",
        ),
        ("bomb.jsonl.gz", gzip(&vec![b'\n'; 80 << 20]), "times its size"),
        ("cut.jsonl.gz", gzip(good.as_bytes())[..20].to_vec(), "cannot unpack "),
        ("utf8.jsonl", [good.as_bytes(), b"\n{\"messages\": \"\xff\"}"].concat(), "utf8.jsonl line 2: is not UTF-8"),
        ("utf16.jsonl", vec![0xff, 0xfe, b'{', 0], "utf16.jsonl line 1: is not UTF-8"),
        ("null.jsonl", br#"{"messages": [{"role": null, "content": "a"}]}"#.to_vec(), "null.jsonl line 1: "),
        ("deep.jsonl", deep("[", "]").into_bytes(), "deep.jsonl line 1: "),
        ("deep.json", format!("[{}]", deep("{\"a\":", "}")).into_bytes(), "deep.json row 1: "),
        ("empty.jsonl", Vec::new(), "empty.jsonl: has no conversation to train on"),
        ("empty.json", b"[]".to_vec(), "empty.json: has no conversation to train on"),
        ("empty.parquet", Vec::new(), "empty.parquet as Parquet"),
        ("empty.jsonl.gz", gzip(b""), "empty.jsonl.gz: has no conversation to train on"),
        ("mark.jsonl", format!("\u{feff}{good}").into_bytes(), "mark.jsonl line 1: begins with a byte order mark"),
        ("mark.json", format!("\u{feff}[{good}]").into_bytes(), "mark.json line 1: begins with a byte order mark"),
        ("other.json", br#"{"version": 1, "data": []}"#.to_vec(), "its fields are `version`, `data`"),
    ] {
        std::fs::write(published.path().join(name), bytes).unwrap();
        let message = published.refused("sft", name, "");
        assert!(message.contains(expected), "{name}: {message}");
    }
}
