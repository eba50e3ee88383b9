//! `fulgurite-bench engine` as scripts run it.

use crate::run;

#[test]
fn each_work_is_told_with_its_speed_its_share_of_the_peak_and_its_memory() {
    let few = ["--new-tokens", "4", "--train-tokens", "300", "--turns", "1", "--seconds", "0", "--json"];
    let lines = run([&["engine", "--shapes", "0.3m", "--batches", "0,1,3"], &few[..]].concat()).json_lines();
    let [peak, alone, three, trained, group] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&peak["event"], &peak["side"]), (&"peak".into(), &"fulgurite".into()));
    assert_eq!((&alone["work"], &alone["batch"], &three["batch"]), (&"sample".into(), &1.into(), &3.into()));
    // Whole sequences of 256 tokens.
    assert_eq!((&trained["work"], &trained["sequences"]), (&"train".into(), &2.into()));
    assert_eq!((&group["work"], &group["members"], &group["prompt"]), (&"group".into(), &16.into(), &112.into()));
    for row in [alone, three, trained, group] {
        assert_eq!(row["parameters"], 279_232);
        // A turn that is over within a tick of the processor's clock has no share.
        assert!(row["tokens_per_second"].as_f64().unwrap() > 0.0 && row.get("share_of_peak").is_some(), "{row}");
        assert!(row["resident_bytes"].as_u64().unwrap() > 0 && row.get("torch").is_none(), "{row}");
    }
}
