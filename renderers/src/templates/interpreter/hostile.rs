//! Templates that would take all of a machine's time or memory.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::python::python_text::from_json;
use crate::templates::chat_template::ChatTemplate;

/// Each must end in an error; the machine's speed decides how soon, so that only what never ends is told apart.
fn refused(template: &str) -> String {
    let began = Instant::now();
    let messages = json!({"messages": [{"role": "user", "content": "hello"}]});
    let rendered = ChatTemplate::compile(template, None).and_then(|template| template.render(from_json(&messages)));
    assert!(began.elapsed() < Duration::from_secs(60), "{:.200}", template);
    match rendered {
        Ok(text) => panic!("{:.200} gave {} bytes", template, text.len()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_template_that_loops_for_ever_is_an_error() {
    for template in [
        "{% for a in range(9000) %}{% for b in range(9000) %}{% for c in range(9000) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in range(90000) %}{% for b in range(90000) %}{% if false %}{% endif %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        "{% for x in [[1]] recursive %}{{ loop(x and [x]) }}{% endfor %}",
        "{% macro a(f) %}{{ f(f) }}{% endmacro %}{{ a(a) }}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}",
        "{% set l = range(100000) | list %}{% for a in l %}{% if l == l + [a] or a in l %}{% endif %}{% endfor %}",
        "{% set l = range(100000) | list %}{% for a in l %}{{ l | sort | length if a < 0 else (l | max) }}{% endfor %}",
        "{% set s = 'ab' * 1000000 %}{% for a in range(100000) %}{% if s.find('zz') > 0 or s.count('zz') %}{% endif %}{% endfor %}",
        "{% set s = 'ab' * 1000000 %}{% for a in range(100000) %}{% if 'zz' in s or s | length < 1 %}{% endif %}{% endfor %}",
        "{% include 'chat_template' %}",
        "{% import 'chat_template' as c %}",
    ] {
        refused(template);
    }
}

#[test]
fn steps_that_each_go_through_a_long_value_are_an_error_in_time() {
    let text = "{% set s = 'a' * 2000000 %}";
    let digits = "{% set s = '9' * 2000000 %}";
    let many = "{% for i in range(100000) %}{% for j in range(30) %}";
    let end = "{% endfor %}{% endfor %}";
    for template in [
        format!("{text}{many}{{% if s|length < 1 %}}{{% endif %}}{end}"),
        format!("{text}{many}{{% if s.startswith('b', 5) %}}{{% endif %}}{end}"),
        format!("{digits}{many}{{% if s|int %}}{{% endif %}}{end}"),
        format!("{digits}{many}{{% if s|float %}}{{% endif %}}{end}"),
        format!("{{% set t = (1,) * 60000 %}}{many}{{% if t[0] == 2 %}}{{% endif %}}{end}"),
        format!("{{% set t = (1,) * 60000 %}}{many}{{% if t == () %}}{{% endif %}}{end}"),
        format!("{text}{{{{ (([s] * 2000)|map('string')|list)|length }}}}"),
        format!("{text}{{{{ (([s] * 2000)|sort)|length }}}}"),
        format!("{text}{{% set e = s|e %}}{{{{ (([e] * 2000)|map('e')|list)|length }}}}"),
    ] {
        refused(&template);
    }
    // What is looked through once is no fault.
    let messages = from_json(&json!({ "messages": [] }));
    let long = ChatTemplate::compile("{{ ('.' * 1000000)|urlize|length }}", None).unwrap();
    assert_eq!(long.render(messages).unwrap(), "1000000");
}

#[test]
fn an_object_of_many_fields_is_read_as_fast_as_a_list() {
    let fields: Vec<String> = (0..100_000).map(|field| format!("\"k{field}\":{field}")).collect();
    let text = format!("{{{},\"k7\":-1}}", fields.join(","));
    let template = ChatTemplate::compile("{% set o = text|fromjson %}{{ o|length }} {{ o.k7 }} {{ o.k99999 }}", None);
    let rendered = template.unwrap().render(from_json(&json!({ "text": text }))).unwrap();
    assert_eq!(rendered, "100000 -1 99999");
}

#[test]
fn a_template_that_makes_too_much_is_an_error() {
    let doubled = |expression: &str| {
        format!("{{% set ns = namespace(s='aaaaaaaaaa', l=[1]) %}}{{% for i in range(60) %}}{expression}{{% endfor %}}")
    };
    let mut templates: Vec<String> = [
        "{{ messages | tojson(indent=1000000000) }}",
        "{{ 'x'.ljust(10000000000) }}",
        "{{ 'x'.rjust(10000000000) }}",
        "{{ 'x'.center(10000000000) }}",
        "{{ 'x'.zfill(10000000000) }}",
        "{{ 'x' | center(10000000000) }}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 10 ** 10 * 'x' }}",
        "{{ [1] * 10 ** 10 }}",
        "{{ (1,) * 10 ** 10 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%1000000000s' | format('a') }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:>{w}}'.format('a', w=1000000000) }}",
        "{{ '{:.1000000000f}'.format(1.5) }}",
        "{{ 'a\nb' | indent(10 ** 9) }}",
        "{{ 'a\tb'.expandtabs(10 ** 10) }}",
        "{{ range(10 ** 9) | list }}",
        "{{ [1] | batch(10 ** 10, 'x') | list }}",
        "{{ [1] | slice(10 ** 10, 'x') | list }}",
        "{{ 2 ** 100000 }}",
        "{{ ('a' * 10000).replace('a', 'b' * 10000) }}",
        "{{ ('a' * 10000) | replace('', 'b' * 10000) }}",
        "{{ ('b' * 10000).join('a' * 10000) }}",
        "{{ ('a' * 10000) | join('b' * 10000) }}",
        "{{ ('a ' * 100000) | wordwrap(1, wrapstring='b' * 10000) }}",
        "{{ ('a' * 10000).translate({97: 'b' * 10000}) }}",
        "{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{{ s }}{% endfor %}",
        "{% set s = 'x' * 1000000 %}{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = ns.l + [s ~ i] %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = ns.l + [i] %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}",
        "{% set ns = namespace(l=()) %}{% for i in range(100000) %}{% set ns.l = (ns.l,) %}{% endfor %}",
        "{% set ns = namespace(l={}) %}{% for i in range(100000) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
        "{% set ns = namespace(l={}) %}{% for i in range(100000) %}{% set ns.l = dict(a=ns.l) %}{% endfor %}",
        "{% set ns = namespace(l=1) %}{% for i in range(100000) %}{% set ns.l = namespace(a=ns.l) %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set ns.l = ns.l | batch(1) | list %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set ns.l = ns.l | map('list') %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set ns.l = cycler(ns.l) %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% set x = ns.l %}{% macro m() %}{{ x }}{% endmacro %}{% set ns.l = m %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100000) %}{% for x in [ns.l] %}{% set ns.l = loop %}{% endfor %}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.a = ns %}",
        "{% set ns = namespace() %}{% set ns.a = [ns] %}",
    ]
    .map(str::to_owned)
    .into();
    templates.extend(
        [
            "{% set ns.s = ns.s ~ ns.s %}",
            "{% set ns.s = ns.s + ns.s %}",
            "{% set ns.s = '%s%s' % (ns.s, ns.s) %}",
            "{% set ns.s = '{0}{0}'.format(ns.s) %}",
            "{% set ns.s = ns.s.replace('a', 'aa') %}",
            "{% set ns.s = [ns.s, ns.s] | join %}",
            "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}",
            "{% set ns.l = ns.l + ns.l %}",
            "{% set ns.l = ns.l * 2 %}",
            "{% set ns.l = [ns.l, ns.l] %}",
            "{% set ns.l = (ns.l, ns.l) %}",
            "{% set ns.l = {'a': ns.l, 'b': ns.l} %}",
        ]
        .map(doubled),
    );
    let shared = doubled("{% set ns.l = [ns.l, ns.l] if i < 20 else ns.l %}");
    let uses = ["| tojson", "| string", "== 1 ~ ns.l", "| pprint", "| list | tojson(indent=1)"];
    templates.extend(
        uses.map(|using| format!("{shared}{{{{ ns.l {using} }}}}{{{{ ns.l {using} }}}}{{{{ ns.l {using} }}}}")),
    );
    let refusals: Vec<String> = templates.iter().map(|template| refused(template)).collect();
    assert!(refusals.iter().all(|refusal| !refusal.contains("not known")), "{refusals:?}");
}

#[test]
fn a_template_that_is_nested_too_deep_is_refused_when_it_is_compiled() {
    let many = 100_000;
    let around = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(many), close.repeat(many));
    let templates = [
        format!("{{{{ {}1 }}}}", "not ".repeat(many)),
        format!("{{{{ {}1 }}}}", "-".repeat(many)),
        format!("{{{{ {}1 }}}}", "- ".repeat(many)),
        format!("{{{{ {} }}}}", around("(", "1", ")")),
        format!("{{{{ {} }}}}", around("[", "1", "]")),
        format!("{{{{ {} }}}}", around("{'a':", "1", "}")),
        format!("{{{{ {} }}}}", around("f(", "1", ")")),
        format!("{{{{ {} }}}}", around("a[", "1", "]")),
        format!("{{{{ a{} }}}}", "[0]".repeat(many)),
        format!("{{{{ a{} }}}}", "()".repeat(many)),
        format!("{{{{ a{} }}}}", ".b".repeat(many)),
        format!("{{{{ a{} }}}}", "|e".repeat(many)),
        format!("{{{{ a{} }}}}", " is defined".repeat(many)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " ** 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " ~ 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " < 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " if 1".repeat(many)),
        around("{% if a %}", "x", "{% endif %}"),
        around("{% for a in b %}", "x", "{% endfor %}"),
        around("{% filter upper %}", "x", "{% endfilter %}"),
        around("{% with %}", "x", "{% endwith %}"),
        around("{% set a %}", "x", "{% endset %}"),
        around("{% macro m() %}", "x", "{% endmacro %}"),
        around("{% call m() %}", "x", "{% endcall %}"),
        around("{% autoescape true %}", "x", "{% endautoescape %}"),
        around("{% block a %}", "x", "{% endblock %}"),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}x".repeat(many)),
        format!("{{% for a in b %}}{}", "{% for a in b %}{% else %}".repeat(many)),
        format!("{{% set {} = 1 %}}", around("(a, ", "b", ")")),
        "x".repeat(2 << 20),
        "{{ a }}".repeat(1 << 20),
    ];
    for template in &templates {
        let compiled = ChatTemplate::compile(template, None);
        assert!(compiled.is_err(), "{:.80}", template);
    }
    // What models' templates may well have is taken.
    let long = "{{ 'a'".to_owned()
        + &" + 'b'".repeat(100)
        + " }}"
        + &"{% if messages %}".repeat(50)
        + &"{% endif %}".repeat(50);
    ChatTemplate::compile(&long, None).unwrap().render(from_json(&json!({"messages": [1]}))).unwrap();
}

#[test]
fn a_macro_may_call_itself_as_deep_as_schemas_lie() {
    let template = "{% macro m(n) %}{% if n > 0 %}{% for x in [n] %}{% if x %}[{{ m(x - 1) }}]{% endif %}{% endfor %}{% endif %}{% endmacro %}{{ m(100) }}";
    let template = ChatTemplate::compile(template, None).unwrap();
    assert_eq!(template.render(from_json(&json!({}))).unwrap(), "[".repeat(100) + &"]".repeat(100));
}

#[test]
fn a_large_conversation_has_a_large_budget() {
    let template = "{% set ns = namespace(n=0, all=[]) %}{% for m in messages %}{% set ns.n = ns.n + m.content | length %}{% if m.role == 'user' and '<x>' in m.content %}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ ns.n }}";
    let messages: Vec<_> =
        (0..20_000).map(|n| json!({"role": "user", "content": "word ".repeat(200) + &n.to_string()})).collect();
    let template = ChatTemplate::compile(template, None).unwrap();
    assert!(template.render(from_json(&json!({"messages": messages}))).unwrap().len() > 20_000_000);
}
