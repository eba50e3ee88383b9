//! DeepSeek V4.1's markup.

use super::{Family, described};
use crate::ResponseFormat;
use crate::parsing::parsed_message::PartContent;

pub(super) const DSML: Family = Family(ResponseFormat::Dsml, "deepseek", &["<｜end▁of▁sentence｜>"]);

#[test]
fn calls_of_deepseeks_markup_say_of_which_type_arguments_are() {
    let prompt = "<｜Assistant｜><think>";
    let section = |calls: &str| format!("\n\n<｜DSML｜ calls>\n{calls}\n</｜DSML｜ calls>");
    let invoke = |parameters: &str| format!("<｜DSML｜ invoke name=\"f\">\n{parameters}\n</｜DSML｜ invoke>");
    let parameter = |name: &str, kind: &str, value: &str| {
        format!("<｜DSML｜ parameter name=\"{name}\" string=\"{kind}\">{value}</｜DSML｜ parameter>")
    };
    let one = parameter("a", "false", " 1 ");
    for (sampled, parts) in [
        ("r \n</think>\na ".to_owned(), vec!["R r \n", "T \na "]),
        (format!("</think>a\n{}", section(&invoke(&one))), vec!["T a\n", "C f {\"a\": 1}"]),
        (
            format!("r</think>{}", section(&format!("{}\n{}", invoke(""), invoke(&one)))),
            vec!["R r", "C f {}", "C f {\"a\": 1}"],
        ),
        // Text stays text, whatever it spells, and may follow a section.
        (
            format!(
                "</think>{} b",
                section(&invoke(&format!("{one}\n{}", parameter("b", "true", "2\n<｜DSML｜ parameter"))))
            ),
            vec!["C f {\"a\": 1, \"b\": \"2\\n<｜DSML｜ parameter\"}", "T b"],
        ),
        // A call in reasoning is a call.
        (format!("r{}", section(&invoke(&one))), vec!["R r\n\n", "C f {\"a\": 1}"]),
    ] {
        assert_eq!(DSML.parts(prompt, &format!("{sampled}<｜end▁of▁sentence｜>")), parts, "{sampled}");
    }
    for (call, error) in [
        (invoke("x"), "text stands beside the arguments"),
        (invoke(&format!("{one}x{one}")), "text stands beside the arguments"),
        (invoke(&format!("{one}{one}")), "the argument `a` stands there twice"),
        (invoke(&parameter("a", "false", "x")), "the argument `a` is not JSON: expected value at line 1 column 1"),
        (invoke(&parameter(" ", "true", "x")), "an argument has no name, or does not say whether it is text"),
        (invoke(&parameter("a", "maybe", "x")), "an argument has no name, or does not say whether it is text"),
        (invoke(&one).replace("\"f\"", "\" \""), "nothing is called"),
        (invoke(&one).replace(" name=\"f\">", ">"), "nothing is called"),
        (invoke(one.trim_end_matches("</｜DSML｜ parameter>")), "the last argument is not whole"),
        (invoke(&one).replace("\n</｜DSML｜ invoke>", ""), "nothing ends the call"),
    ] {
        let parsed = DSML.parse(prompt, &format!("</think>{call}<｜end▁of▁sentence｜>"), &[]);
        let [part] = &parsed.parts[..] else { panic!("{parsed:?}") };
        assert_eq!(part.content, PartContent::BrokenToolCall { error: error.to_owned() }, "{call}");
        assert_eq!(parsed.text_of(part), call);
    }
}

#[test]
fn deepseeks_markup_is_a_mark_by_its_token_alone() {
    let tokenizer = DSML.tokenizer();
    let call = "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
    let parts = |sampled: &[u32]| {
        let mut parser = DSML.parser("<｜Assistant｜></think>", &[]);
        for token in sampled {
            parser.feed(&[*token]);
        }
        described(&parser.finish().1)
    };
    assert_eq!(parts(&tokenizer.encode_with_specials(call).unwrap()), ["C f {}"]);
    assert_eq!(parts(&tokenizer.encode_ordinary(call).unwrap()), [format!("T {call}")]);
    // Where the tokenizer has no such token, letters are all that there is.
    let plain = Family(ResponseFormat::Dsml, "llama3", &["<|eot_id|>"]);
    assert_eq!(plain.parts("", call), ["C f {}"]);
}
