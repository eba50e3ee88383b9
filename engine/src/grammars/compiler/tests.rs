use serde_json::{Map, Value, json};

use super::*;
use crate::grammars::vocabulary::TokenText;

fn grammars(limits: GrammarLimits) -> Arc<Grammars> {
    let vocabulary: Vocabulary = (0..=u8::MAX).map(|byte| TokenText::Text(vec![byte])).collect();
    Arc::new(Grammars::new(&vocabulary, 256, limits))
}

/// Why a schema is refused, or that it is not.
async fn compiled(schema: Value) -> Result<(), String> {
    let started = grammars(GrammarLimits::default()).begin(Constraint::JsonSchema(schema), None).await;
    started.map(drop).map_err(|error| error.to_string())
}

fn object(properties: usize) -> Value {
    let property = |place: usize| (format!("p{place}"), json!({ "type": "string" }));
    json!({ "type": "object", "properties": (0..properties).map(property).collect::<Map<_, _>>() })
}

/// A definition that refers to the next, and so on.
fn chain(links: usize) -> Value {
    let link = |place: usize| match place + 1 < links {
        true => json!({ "$ref": format!("#/$defs/d{}", place + 1) }),
        false => json!({ "type": "string" }),
    };
    let definitions: Map<String, Value> = (0..links).map(|place| (format!("d{place}"), link(place))).collect();
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[tokio::test]
async fn schemas_as_deep_as_the_limits_allow_do_not_overflow_the_stack() {
    for (schema, is_accepted) in
        [(object(2000), true), (object(8000), false), (chain(2000), true), (chain(8000), false)]
    {
        match compiled(schema).await {
            Ok(()) => assert!(is_accepted),
            Err(words) => assert!(!is_accepted && words.contains("(engine.grammar_"), "{words}"),
        }
    }
}

#[tokio::test]
async fn what_costs_much_and_is_small_is_refused_by_name() {
    let patterns: Map<String, Value> = (0..300).map(|place| (format!("^k{place}"), json!({}))).collect();
    for schema in [
        json!({ "type": "integer", "multipleOf": 999_983 }),
        json!({ "type": "integer", "allOf": [{ "multipleOf": 997 }, { "multipleOf": 991 }] }),
        json!({ "type": "object", "patternProperties": patterns }),
    ] {
        let words = compiled(schema).await.unwrap_err();
        assert!(words.contains("(engine.grammar_work)"), "{words}");
    }
    for schema in [json!({ "type": "integer", "multipleOf": 5 }), json!({ "type": "number", "multipleOf": 0.01 })] {
        compiled(schema).await.unwrap();
    }
}

#[tokio::test]
async fn a_grammar_is_bounded_by_the_schemas_in_it() {
    let grammar = format!("start: %json {}", object(8000));
    let started = grammars(GrammarLimits::default()).begin(Constraint::Lark(grammar), None).await;
    let words = started.map(drop).unwrap_err().to_string();
    assert!(words.contains("(engine.grammar_values)"), "{words}");
}

#[tokio::test]
async fn who_leaves_before_the_turn_comes_has_nothing_compiled() {
    let grammars = grammars(GrammarLimits::default());
    let places = [grammars.share.enter("a").await.unwrap(), grammars.share.enter("b").await.unwrap()];
    let waits = grammars.begin(Constraint::JsonSchema(json!({ "type": "string" })), Some("c"));
    let left = tokio::time::timeout(std::time::Duration::from_millis(10), waits).await;
    assert!(left.is_err());
    drop(places);
    assert!(grammars.factory.get().is_none(), "nothing was compiled");
}
