//! `fulgurite-bench render` as scripts run it.

use crate::run;

#[test]
fn the_benchmark_compares_in_one_run() {
    let rows = run(["render", "--sizes", "300", "--json"]).json_lines();
    let operations: Vec<&str> = rows.iter().map(|row| row["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["template text", "render + tokenize", "continuation", "parse"]);
    assert!(rows[2]["ratio"].as_f64().unwrap() > 0.0);
}
