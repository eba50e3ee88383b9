//! No file of a crate imports another in a circle, and its folders lie in strata.
use super::licences::python;

#[test]
fn imports_are_read_as_they_are_written() {
    python(&["-m", "doctest", "tests/house/import_circles.py"]).unwrap();
}

#[test]
fn faults_of_files_and_json_are_not_swallowed() {
    python(&["tests/house/swallowed.py", "--check"]).unwrap();
}

#[test]
fn words_are_found_in_names_and_not_in_texts() {
    python(&["-m", "doctest", "tests/house/words.py", "tests/house/identifiers.py"]).unwrap();
}

#[test]
fn names_say_what_they_hold() {
    python(&["tests/house/words.py", "--check"]).unwrap();
}

#[test]
fn folders_import_only_folders_below_them() {
    python(&["tests/house/import_circles.py", "--check"]).unwrap();
}
