//! A teacher that is the trained model itself: as it is now, or as it was some updates ago.

use std::process::Stdio;

use super::{project, recorded, refused};
use crate::common::eventually;
use crate::common::project::{numbers, recorded_steps, saved, weights};

#[test]
fn a_teacher_that_follows_the_student_is_what_it_has_become() {
    let project = project();
    let teacher_model = "[[models]]\nname = \"teacher\"\nbackend = \"embedded\"\npath = \"teacher\"\n\n";
    project.change_config(teacher_model, "");
    project.change_config("teacher = 'teacher'", "teacher = 'hello', reward_coefficient = 1.0");
    project.change_config("group_size = 1", "group_size = 3");
    let steps = project.train("follows", &["--max-steps", "3"]);
    // The rewards move it, and its teacher moves with it: a teacher that stayed would be left behind.
    assert!(numbers(&steps, "optim/gradient_norm").iter().all(|norm| *norm > 0.0), "{steps:?}");
    assert_eq!(numbers(&steps, "teacher_kl"), [0.0; 3]);
    assert!(recorded(&project, "follows").iter().all(|(sampler, teacher)| sampler == teacher), "to the bit");
    project.change_config("reward_coefficient = 1.0", "teacher_system = 'Say {task}.'");
    let lines_of = project.train("told", &["--max-steps", "2"]);
    assert!(numbers(&lines_of, "teacher_kl").iter().all(|kl| *kl != 0.0), "{lines_of:?}");
    project.train("stopped", &["--max-steps", "1"]);
    let resumed = project.train("stopped", &["--max-steps", "2", "--resume"]);
    assert!(weights(resumed.last().unwrap()) == weights(lines_of.last().unwrap()));
}

#[test]
fn a_teacher_that_is_refreshed_at_times_is_what_the_student_was_then_and_survives_a_kill() {
    let project = project();
    let teacher_model = "[[models]]\nname = \"teacher\"\nbackend = \"embedded\"\npath = \"teacher\"\n\n";
    project.change_config(teacher_model, "");
    let message = refused(&project, "{ teacher = 'teacher' }", "{ teacher = 'hello', refresh_every = 0 }");
    assert!(message.contains("[trainer] distillation.refresh_every is 0, but must be at least 1"), "{message}");
    let options = "teacher = 'hello', reward_coefficient = 1.0, refresh_every = 3";
    project.change_config("teacher = 'teacher'", options);
    project.change_config("group_size = 1", "group_size = 3");
    project.change_config("max_steps = 4", "max_steps = 8");
    for (rank, file) in [(0, "model.safetensors"), (4, "adapter_model.safetensors")] {
        if rank > 0 {
            project.train_adapters(rank);
        }
        let run = |name: &str| format!("{name}-{rank}");
        let whole = project.train(&run("whole"), &[]);
        assert!(numbers(&whole, "optim/gradient_norm").iter().all(|norm| *norm > 0.0), "{whole:?}");
        let away = numbers(&whole, "teacher_kl");
        let refreshed: Vec<bool> = away.iter().map(|away| *away == 0.0).collect();
        assert_eq!(refreshed, [true, false, false, true, false, false, true, false], "{away:?}");
        let recorded_rows = recorded(&project, &run("whole"));
        let is_same =
            |step: usize| recorded_rows[9 * step..9 * (step + 1)].iter().all(|(sampler, teacher)| sampler == teacher);
        assert_eq!((0..8).map(is_same).collect::<Vec<bool>>(), refreshed, "to the bit");
        // Its weights stand beside a checkpoint between two refreshes, and nowhere else.
        let holds_teacher =
            |step: usize| project.path(&run("whole")).join(format!("checkpoints/{step:06}/teacher")).is_dir();
        assert_eq!((holds_teacher(6), holds_teacher(7), holds_teacher(8)), (false, true, true));

        // Stopped between two refreshes, and killed in the middle of what comes then.
        let stopped = run("stopped");
        project.train(&stopped, &["--max-steps", "5"]);
        let mut train = project.command(&stopped).arg("--resume").stdout(Stdio::null()).spawn().unwrap();
        eventually("an update after the resume", || (recorded_steps(&project.path(&stopped)) > 6).then_some(()));
        train.kill().unwrap();
        train.wait().unwrap();
        let resumed = project.train(&stopped, &["--resume"]);
        assert!(saved(resumed.last().unwrap(), file) == saved(whole.last().unwrap(), file), "{rank}");
        project.account(&stopped, resumed.last().unwrap());
    }
}

#[test]
fn what_cannot_be_refreshed_is_refused_by_name() {
    let project = project();
    let message = refused(&project, "{ teacher = 'teacher' }", "{ teacher = 'teacher', refresh_every = 2 }");
    let expected = "[trainer] distillation.refresh_every is 2, but no teacher is the trained model `hello`";
    assert!(message.contains(expected), "{message}");
    let teacher_model = "[[models]]\nname = \"teacher\"\nbackend = \"embedded\"\npath = \"teacher\"\n\n";
    project.change_config(teacher_model, "");
    let _server = project.train_at_our_tinker_server();
    let _ = std::fs::remove_dir_all(project.path("refused"));
    let message = refused(&project, "{ teacher = 'teacher' }", "{ teacher = 'hello', refresh_every = 2 }");
    assert!(
        message.contains("distillation, teacher \"hello\"\n  caused by: it is trained at a service, whose"),
        "{message}"
    );
}
