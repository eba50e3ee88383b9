use std::collections::HashSet;

use crate::RenderError;
use crate::python::python_builtins;
use crate::python::python_json::{JsonStyle, to_json};
use crate::python::python_methods::call_method;
use crate::python::python_text::python_str;
use crate::python::python_time::{strftime, unix_seconds};
use crate::templates::template_program::TemplateProgram;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

/// A chat template, rendered as Hugging Face's `apply_chat_template` renders it with Python's jinja2.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    environment: Environment<'static>,
    /// The same template for the way that nearly every prompt takes.
    program: Option<TemplateProgram>,
    marks_generation: bool,
    /// Names that it reads and does not define itself.
    variables: HashSet<String>,
}

const NAME: &str = "chat_template";

impl ChatTemplate {
    /// Compiles a template; fails where its syntax is wrong. `now` is the time that the template sees, in seconds
    /// since 1970; without it the moment of rendering.
    pub(crate) fn compile(source: &str, now: Option<i64>) -> Result<Self, RenderError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|error| template_error(&error))?;
        environment.set_syntax(syntax.clone());
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_formatter(|out, _, value| Ok(out.write_str(&python_str(value))?));
        environment.set_unknown_method_callback(call_method);
        environment.add_filter("tojson", tojson);
        environment.add_filter("generation_marks", generation_marks);
        python_builtins::add_to(&mut environment);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", move |format: &str| strftime_now(format, now));
        // Jinja reads every kind of line break as a line feed.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let written = with_generation_filter(&source);
        let marks_generation = written != source;
        let program = TemplateProgram::of(&written, syntax);
        environment.add_template_owned(NAME, written).map_err(|error| template_error(&error))?;
        let template = environment.get_template(NAME).map_err(|error| template_error(&error))?;
        let variables = template.undeclared_variables(false);
        Ok(Self { environment, program, marks_generation, variables })
    }

    /// Whether the template says by `{% generation %}` what an assistant's own words are.
    pub(crate) fn marks_generation(&self) -> bool {
        self.marks_generation
    }

    /// Whether the template reads a variable of that name.
    pub(crate) fn reads_variable(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    /// Renders the template, which sees the fields of `context` as variables.
    pub(crate) fn render(&self, context: Value) -> Result<String, RenderError> {
        let quick = self.program.as_ref().map(|program| program.run(&self.environment, &context));
        quick.and_then(Result::ok).map_or_else(|| self.render_by_engine(context), Ok)
    }

    fn render_by_engine(&self, context: Value) -> Result<String, RenderError> {
        let template = self.environment.get_template(NAME).map_err(|error| template_error(&error))?;
        template.render(context).map_err(|error| template_error(&error))
    }
}

/// The whole chain of causes: the message of `raise_exception` is the innermost.
fn template_error(error: &Error) -> RenderError {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    RenderError::Template { message }
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, python_str(message).into_owned()))
}

/// The present moment, UTC.
fn strftime_now(format: &str, now: Option<i64>) -> Result<String, Error> {
    strftime(format, now.unwrap_or_else(unix_seconds)).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now cannot write the format {format:?}"))
    })
}

/// `json.dumps` with the keyword arguments that Hugging Face passes on.
fn tojson(value: &Value, ensure_ascii: Option<bool>, options: Kwargs) -> Result<String, Error> {
    if ensure_ascii.is_none() && options.args().next().is_none() {
        return to_json(value, &JsonStyle { ensure_ascii: false, ..JsonStyle::default() });
    }
    let indent: Option<Value> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    let ensure_ascii = ensure_ascii.map_or_else(|| options.get("ensure_ascii"), |given| Ok(Some(given)))?;
    options.assert_all_used()?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(indent) => match indent.as_str() {
            Some(text) => Some(text.to_owned()),
            None => Some(" ".repeat(usize::try_from(i64::try_from(indent)?).unwrap_or(0))),
        },
    };
    let (item_separator, key_separator) = match separators.as_deref() {
        // Python leaves the space before a line break out.
        None => (if indent.is_some() { "," } else { ", " }, ": "),
        Some([item, key]) => (item.as_str(), key.as_str()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson takes two separators")),
    };
    let style = JsonStyle {
        ensure_ascii: ensure_ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
        indent,
        item_separator: item_separator.to_owned().into(),
        key_separator: key_separator.to_owned().into(),
    };
    to_json(value, &style)
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

fn generation_marks(state: &mut State<'_, '_>, text: &Value) -> String {
    let text = python_str(text);
    let marks = state.lookup(GENERATION_MARKS);
    match marks.as_ref().and_then(Value::as_str).and_then(|marks| marks.split_at_checked(marks.len() / 2)) {
        Some((begin, end)) => format!("{begin}{text}{end}"),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::python::python_text::from_json;

    /// Where the template engine goes its own way, by the cases that show it: it drops the line break after a raw tag,
    /// takes `none` for an empty list in a loop, and writes separators inside a container that is concatenated by `~`
    /// without escaping them.
    const DIFFERENCES: [&str; 3] = ["engine/0", "engine/1", "engine/2"];

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
            let told = context.as_object_mut().unwrap();
            told.extend(file["contexts"][text("context")].as_object().unwrap().clone());
            told.insert("messages".to_owned(), file["conversations"][text("conversation")].clone());
            let rendered = template.render(from_json(&context));
            if rendered.as_ref().ok().map(String::as_str) != case["output"].as_str() {
                failures.push(format!("{case}\n  ours {rendered:?}"));
            }
        }
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }

    /// What the quick way gives, the engine gives too; and the quick way is the one that prompts take.
    #[test]
    fn a_program_does_what_the_engine_does() {
        let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
        let read = |path: &str| std::fs::read_to_string(format!("{vectors}/{path}")).unwrap();
        let compare = |template: &ChatTemplate, context: Value, case: &Json| {
            let quick = template.program.as_ref().and_then(|program| program.run(&template.environment, &context).ok());
            let by_engine = template.render_by_engine(context).ok();
            if quick.is_some() {
                assert_eq!(quick, by_engine, "{case}");
            }
            (by_engine.is_some(), quick.is_some())
        };
        let cases: Vec<Json> = serde_json::from_str(&read("chat_templates.json")).unwrap();
        let mut renders = Vec::new();
        for case in &cases {
            let Ok(template) = ChatTemplate::compile(case["template"].as_str().unwrap(), CLOCK) else { continue };
            renders.push(compare(&template, from_json(&case["context"]), case));
        }
        let count = |renders: &[(bool, bool)]| {
            let rendered = renders.iter().filter(|(by_engine, _)| *by_engine);
            (rendered.clone().count(), rendered.filter(|(_, quick)| *quick).count())
        };
        let (rendered, quick) = count(&renders);
        assert!(quick * 10 > rendered * 9, "{quick} of {rendered}");
        let file: Json = serde_json::from_str(&read("family_templates.json")).unwrap();
        for case in file["cases"].as_array().unwrap() {
            let text = |field: &str| case[field].as_str().unwrap();
            let template =
                ChatTemplate::compile(&read(&format!("templates/{}.jinja", text("template"))), CLOCK).unwrap();
            let mut context = json!({"tools": null, "bos_token": "<s>", "eos_token": "</s>"});
            let told = context.as_object_mut().unwrap();
            told.extend(file["contexts"][text("context")].as_object().unwrap().clone());
            told.insert("messages".to_owned(), file["conversations"][text("conversation")].clone());
            let (by_engine, quick) = compare(&template, from_json(&context), case);
            assert_eq!(quick, by_engine, "{case}");
        }
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
}
