//! A kept adapter's files as an archive has them for Tinker's tools, which look for a tied head under a name of their own.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use fulgurite_backends::{DIGEST_LIST, DigestingWriter, digest_list};
use fulgurite_tinker::server::FileBeginning;
use serde_json::Value;

use crate::checkpoints::adapter_config::ADAPTER_CONFIG;
use crate::checkpoints::adapter_files::{ADAPTER_WEIGHTS, HeadName, no_configuration};
use crate::checkpoints::tensor_files::TensorFile;
use crate::checkpoints::verification::digests_of;
use crate::error::EngineError;
use crate::small_files::{LONGEST_CONFIG, read_small_file};

/// How its files begin there: the configuration whole, what stands before the matrices, and the digests of both. Empty for
/// weights without an adapted head. Reads all of them.
pub(crate) fn beginnings_for_tinkers_tools(directory: &Path) -> Result<Vec<FileBeginning>, EngineError> {
    let path = directory.join(ADAPTER_CONFIG);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let matrices = TensorFile::open(&directory.join(ADAPTER_WEIGHTS))?;
    let (head, names) = (HeadName::Tinkers, matrices.metadata.offset_keys());
    if names.iter().all(|name| head.of(name) == *name) {
        return Ok(Vec::new());
    }
    let text = read_small_file(&path, LONGEST_CONFIG)?;
    let mut config: Value = serde_json::from_str(&text).map_err(no_configuration(&path))?;
    for module in config["target_modules"].as_array_mut().into_iter().flatten() {
        *module = head.of_module(module.as_str().unwrap_or_default()).into();
    }
    let beginning = |file: &str, bytes, replaces| FileBeginning { file: file.to_owned(), bytes, replaces };
    let (header, replaced) = matrices.renamed(|name| head.of(name))?;
    let config = beginning(ADAPTER_CONFIG, format!("{config:#}\n").into_bytes(), text.len() as u64);
    let mut beginnings = Vec::from([config, beginning(ADAPTER_WEIGHTS, header, replaced)]);
    if let Some(mut digests) = digests_of(directory)? {
        let list = directory.join(DIGEST_LIST);
        let replaced = std::fs::metadata(&list).map_err(EngineError::io("read", &list))?.len();
        for beginning in &beginnings {
            digests.insert(beginning.file.clone(), digest_from(beginning, directory)?);
        }
        beginnings.push(beginning(DIGEST_LIST, digest_list(&digests).into_bytes(), replaced));
    }
    Ok(beginnings)
}

/// The digest of a file that begins so.
fn digest_from(beginning: &FileBeginning, directory: &Path) -> Result<String, EngineError> {
    let path = directory.join(&beginning.file);
    let digest = || {
        let mut written = DigestingWriter::new(std::io::sink());
        written.write_all(&beginning.bytes)?;
        let mut file = File::open(&path)?;
        file.seek(SeekFrom::Start(beginning.replaces))?;
        std::io::copy(&mut file, &mut written)?;
        Ok(written.finish().1)
    };
    digest().map_err(EngineError::io("read", &path))
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::find_damage;

    use super::*;
    use crate::adapters::lora::LoraOptions;
    use crate::checkpoints::adapter_files::read_adapter;
    use crate::checkpoints::adapter_files::tests::{adapter, write};
    use crate::model::lora_module::LoraModule;
    use crate::test_models::tiny_config;

    #[test]
    fn a_kept_adapter_begins_otherwise_for_tinkers_tools_and_is_the_same_adapter() {
        let home = tempfile::tempdir().unwrap();
        let written = adapter(&LoraOptions::new(2, 1));
        let directory = home.path().join("kept");
        write(&directory, "base", &written);
        let beginnings = beginnings_for_tinkers_tools(&directory).unwrap();
        assert_eq!(beginnings.len(), 3);
        for FileBeginning { file, mut bytes, replaces } in beginnings {
            bytes.extend(&std::fs::read(directory.join(&file)).unwrap()[replaces as usize..]);
            std::fs::write(directory.join(file), bytes).unwrap();
        }
        assert_eq!(find_damage(&directory, &digests_of(&directory).unwrap().unwrap()), None);
        assert_eq!(read_adapter(&directory, &tiny_config()).unwrap().values, written.values);
        let names = TensorFile::open(&directory.join(ADAPTER_WEIGHTS)).unwrap().metadata.offset_keys();
        assert!(names.contains(&"base_model.model.model.unembed_tokens.lora_A.weight".to_owned()), "{names:?}");
        let config = std::fs::read_to_string(directory.join(ADAPTER_CONFIG)).unwrap();
        assert!(config.contains("unembed_tokens") && !config.contains("lm_head"), "{config}");
        assert_eq!(beginnings_for_tinkers_tools(&directory).unwrap(), [], "it has those names already");
    }

    #[test]
    fn what_has_no_adapted_head_is_given_as_it_is_kept() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(beginnings_for_tinkers_tools(home.path()).unwrap(), []);
        let attention = LoraOptions { modules: LoraModule::ATTENTION.into(), ..LoraOptions::new(2, 1) };
        let directory = home.path().join("kept");
        write(&directory, "base", &adapter(&attention));
        assert_eq!(beginnings_for_tinkers_tools(&directory).unwrap(), []);
    }
}
