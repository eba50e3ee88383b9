use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::RenderError;
use crate::python::budget::Budget;
use crate::python::python_objects::size_of_input;
use crate::templates::interpreter::program::{TemplateProgram, UnknownName};
use crate::templates::interpreter::run::Surroundings;
use minijinja::Value;
use minijinja::syntax::SyntaxConfig;

/// A chat template, rendered as Hugging Face's `apply_chat_template` renders it with Python's jinja2: by its own
/// interpreter, in which all that a template does is counted.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    program: TemplateProgram,
    marks_generation: bool,
    /// The time that the template sees, in seconds since 1970; `None` is the moment of rendering.
    now: Option<i64>,
}

impl ChatTemplate {
    /// Compiles a template; fails where its syntax is wrong, or deeper than any model's. `now` is the time that the
    /// template sees, in seconds since 1970; without it the moment of rendering.
    pub(crate) fn compile(source: &str, now: Option<i64>) -> Result<Self, RenderError> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| RenderError::Template { message: error.to_string() })?;
        // Jinja reads every kind of line break as a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let written = with_generation_filter(&source);
        let marks_generation = written != source;
        let program = without_panic(|| TemplateProgram::compile(&written, syntax))?;
        Ok(Self { program, marks_generation, now })
    }

    /// Whether the template says by `{% generation %}` what an assistant's own words are.
    pub(crate) fn marks_generation(&self) -> bool {
        self.marks_generation
    }

    /// Whether the template reads a variable of that name.
    pub(crate) fn reads_variable(&self, name: &str) -> bool {
        self.program.reads.contains(name)
    }

    /// The filters, tests, functions and methods that the template names and that are not known here.
    pub(crate) fn unknown_names(&self) -> &[UnknownName] {
        &self.program.unknown
    }

    /// Renders the template, which sees the fields of `context` as variables.
    ///
    /// # Errors
    ///
    /// What the template raises, or that it does or makes more than a prompt of its size can need.
    pub(crate) fn render(&self, context: Value) -> Result<String, RenderError> {
        let marks = context.get_attr(GENERATION_MARKS).ok().filter(|marks| !marks.is_none());
        let surroundings = Surroundings {
            budget: Budget::new(&context, size_of_input),
            now: self.now,
            marks: marks.as_ref().and_then(Value::as_str),
        };
        without_panic(|| self.program.run(&context, &surroundings).map_err(|error| error.in_template()))
    }
}

/// A panic is an error of the template that brought it about.
fn without_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, RenderError> {
    let unknown = || Err("the template failed in a way that is not known".to_owned());
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| unknown());
    done.map_err(|message| RenderError::Template { message })
}

/// The variable that says which two characters stand around what `{% generation %}` marks; without it none do.
pub(crate) const GENERATION_MARKS: &str = "fulgurite_generation_marks";

/// `{% generation %}` marks what an assistant says. It renders as its content, in a scope of its own as `{% with %}`
/// opens one, and through a filter that puts the marks around it. White space control stays as it is.
fn with_generation_filter(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        let name_at = tag.len() - tag.trim_start_matches(['-', '+']).trim_start().len();
        let (lead, name) = tag.split_at(name_at);
        out.push_str(lead);
        rest = name;
        let tags = [("generation", "with %}{% filter generation_marks"), ("endgeneration", "endfilter %}{% endwith")];
        for (generation, written) in tags {
            if let Some(after) = name.strip_prefix(generation)
                && after.trim_start().trim_start_matches(['-', '+']).starts_with("%}")
            {
                out.push_str(written);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::python::python_text::from_json;

    /// Where the parser goes its own way, by the case that shows it: it drops the line break after a raw tag.
    const DIFFERENCES: [&str; 1] = ["engine/0"];

    /// Where values are made otherwise: no template names its own blocks.
    const DIFFERENT_VALUES: [&str; 1] = ["{{ self.a is defined }}"];

    /// What is refused here and not in Python.
    const REFUSED_VALUES: [&str; 6] = [
        "{{ (list | map('abs')) is lower }}",
        "{{ (list | map('abs')) is upper }}",
        "{{ '\\N{EM DASH}' }}",
        "{{ text | attr('upper')() }}",
        "{{ 'a b' | attr('split')(' ') | first }}",
        "{% autoescape true %}{{ '<' }}{% endautoescape %}",
    ];

    /// The moment that the cases were made at, by their own clock: 2024-07-26.
    const CLOCK: Option<i64> = Some(1_721_952_000);

    #[test]
    fn every_case_renders_as_python_does() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/chat_templates.json");
        let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() > 1000);
        let mut failures = Vec::new();
        for case in &cases {
            let (name, template) = (&case["name"], case["template"].as_str().unwrap());
            let rendered = ChatTemplate::compile(template, CLOCK)
                .and_then(|template| template.render(from_json(&case["context"])));
            let as_expected = match (&rendered, case["output"].as_str()) {
                (Ok(rendered), Some(expected)) => rendered == expected,
                (Err(_), None) => true,
                _ => false,
            };
            if as_expected == DIFFERENCES.contains(&name.as_str().unwrap()) {
                failures.push(format!(
                    "{name} {template:.90}\n  ours   {rendered:?}\n  python {}{}",
                    case["output"], case["error"]
                ));
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// Families of models ship templates of the same constructs as these; see `vectors/make_family_template_cases.py`.
    #[test]
    fn every_familys_template_renders_as_python_does() {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
        let read = |path: &str| std::fs::read_to_string(format!("{vectors}/{path}")).unwrap();
        let file: Json = serde_json::from_str(&read("family_templates.json")).unwrap();
        let cases = file["cases"].as_array().unwrap();
        assert!(cases.len() > 1000);
        let mut failures = Vec::new();
        for case in cases {
            let text = |field: &str| case[field].as_str().unwrap();
            let template =
                ChatTemplate::compile(&read(&format!("templates/{}.jinja", text("template"))), CLOCK).unwrap();
            let mut context = json!({"tools": null, "bos_token": "<s>", "eos_token": "</s>"});
            let fields = context.as_object_mut().unwrap();
            fields.extend(file["contexts"][text("context")].as_object().unwrap().clone());
            fields.insert("messages".to_owned(), file["conversations"][text("conversation")].clone());
            let rendered = template.render(from_json(&context));
            if rendered.as_ref().ok().map(String::as_str) != case["output"].as_str() {
                failures.push(format!("{case}\n  ours {rendered:?}"));
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// Filters, tests, functions, methods, operators and slices; see `vectors/make_template_value_cases.py`.
    #[test]
    fn every_value_is_made_as_python_makes_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/template_values.json");
        let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let cases = file["cases"].as_array().unwrap();
        assert!(cases.len() > 5000);
        let context = from_json(&file["context"]);
        let mut failures = Vec::new();
        for case in cases {
            let template = case["template"].as_str().unwrap();
            let rendered = ChatTemplate::compile(template, CLOCK).and_then(|template| template.render(context.clone()));
            let is_same = match (&rendered, case["output"].as_str()) {
                (Ok(rendered), Some(expected)) => rendered == expected,
                (Err(_), _) if REFUSED_VALUES.contains(&template) => true,
                (Err(_), None) => true,
                _ => false,
            };
            if is_same == DIFFERENT_VALUES.contains(&template) {
                failures
                    .push(format!("{template}\n  ours   {rendered:?}\n  python {}{}", case["output"], case["error"]));
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// Python writes these by their address in memory, or not at all as it is written here.
    #[test]
    fn what_cannot_be_written_as_python_writes_it_is_refused() {
        for template in [
            "{{ range(3) | reverse }}",
            "{{ [1] | map('string') }}",
            "{{ 'a'.upper }}",
            "{{ cycler(1) }}",
            "{% macro m() %}{% endmacro %}{{ m }}",
            "{% for a in [1] %}{{ loop }}{% endfor %}",
            "{{ 'x' ~ ([1] | reverse) }}",
        ] {
            let rendered = ChatTemplate::compile(template, None).unwrap().render(from_json(&json!({})));
            let error = rendered.unwrap_err().to_string();
            assert!(error.contains("by its address in memory"), "{template}: {error}");
        }
        let escaping = ChatTemplate::compile("{% autoescape true %}{% endautoescape %}", None).unwrap();
        let [unknown] = &escaping.unknown_names().iter().collect::<Vec<_>>()[..] else { panic!("{escaping:?}") };
        assert_eq!((unknown.kind, &*unknown.name), ("statement", "autoescape"));
    }

    #[test]
    fn the_message_of_raise_exception_reaches_the_caller() {
        let template = ChatTemplate::compile("{{ raise_exception('roles must alternate') }}", None).unwrap();
        let error = template.render(from_json(&json!({}))).unwrap_err().to_string();
        assert!(error.contains("roles must alternate"), "{error}");
    }

    #[test]
    fn generation_tags_keep_their_white_space_control() {
        assert_eq!(
            with_generation_filter("{%- generation +%}{% generations %}{%endgeneration-%}"),
            "{%- with %}{% filter generation_marks +%}{% generations %}{%endfilter %}{% endwith-%}"
        );
    }

    #[test]
    fn a_wrong_template_is_refused_when_it_is_compiled() {
        assert!(matches!(ChatTemplate::compile("{% if %}", None), Err(RenderError::Template { .. })));
        let context = from_json(&json!({"a": 1}));
        assert_eq!(ChatTemplate::compile("{{ a }}", None).unwrap().render(context).unwrap(), "1");
    }

    #[test]
    fn a_macro_tells_what_it_takes() {
        let template =
            "{% macro m(a, b=1) %}{{ kwargs }}{% endmacro %}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}";
        let rendered = ChatTemplate::compile(template, None).unwrap().render(from_json(&json!({}))).unwrap();
        assert_eq!(rendered, "('a', 'b')TrueFalse");
    }

    #[test]
    fn functions_that_are_not_there_are_named_with_their_line() {
        let template = "{{ later(1) }}{{ range(2) }}\n{% macro later(a) %}{{ caller() }}{% endmacro %}\n\
                        {% set n = namespace(f=later) %}{{ n.f(2) }}{{ nowhere(3) }}{{ nowhere() }}";
        let template = ChatTemplate::compile(template, None).unwrap();
        let unknown: Vec<_> = template.unknown_names().iter().filter(|unknown| unknown.kind == "function").collect();
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert_eq!((&*unknown[0].name, unknown[0].line), ("nowhere", 3));
    }
}
