use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fulgurite_backends::BackendError;

use crate::age::{Recipient, encrypt};
use crate::server::error::{TinkerServerError, run_blocking};
use crate::server::host::HostedLearner;
use crate::server::state::state_directory::sync_directory;

/// The request's field with the recipients.
const FIELD: &str = "age_encryption_recipients";

/// Recipients of one export, as the API documents it. Each makes every file longer.
const MOST: usize = 10;

/// Characters of a recipient that an error repeats, more than one has.
const SHOWN: usize = 80;

/// What the names of encrypted files end in, behind their own.
const SUFFIX: &str = ".age";

/// To whom an export is encrypted: the holders of these X25519 keys read it, each alone, and nobody else does.
#[derive(Clone)]
pub(crate) struct Recipients(Vec<Recipient>);

impl std::fmt::Debug for Recipients {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(Recipient::text)).finish()
    }
}

impl Recipients {
    /// Reads a request's; `None` where it has none. Fails with what is wrong with which.
    pub(crate) fn read(texts: &[String]) -> Result<Option<Self>, String> {
        if texts.len() > MOST {
            return Err(format!("{FIELD} names {} recipients, but {MOST} at most can be given", texts.len()));
        }
        let read = |(index, text): (usize, &String)| text.parse().map_err(|_| refusal(index, text));
        let recipients = texts.iter().enumerate().map(read).collect::<Result<Vec<Recipient>, String>>()?;
        Ok((!recipients.is_empty()).then_some(Self(recipients)))
    }

    /// Writes the files of a directory into another, each encrypted under its name with `.age` behind it. That directory
    /// appears whole or not at all.
    fn encrypt_directory(&self, plain: &Path, encrypted: &Path) -> Result<(), TinkerServerError> {
        let fresh = plain.with_extension("encrypted");
        std::fs::create_dir(&fresh).map_err(TinkerServerError::io("create", &fresh))?;
        for entry in std::fs::read_dir(plain).map_err(TinkerServerError::io("read", plain))? {
            let entry = entry.map_err(TinkerServerError::io("read", plain))?;
            let mut name = entry.file_name();
            name.push(SUFFIX);
            self.encrypt_file(&entry.path(), &fresh.join(name))?;
        }
        sync_directory(&fresh)?;
        let parent = encrypted.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).map_err(TinkerServerError::io("create", parent))?;
        std::fs::rename(&fresh, encrypted).map_err(TinkerServerError::io("complete", encrypted))?;
        sync_directory(parent)
    }

    fn encrypt_file(&self, plain: &Path, encrypted: &Path) -> Result<(), TinkerServerError> {
        let mut read = File::open(plain).map_err(TinkerServerError::io("read", plain))?;
        let mut write = || {
            let mut file = File::create(encrypted)?;
            encrypt(&self.0, &mut read, &mut file)?;
            file.sync_all()
        };
        write().map_err(TinkerServerError::io("encrypt to", encrypted))
    }
}

fn refusal(index: usize, text: &str) -> String {
    let what = match text.starts_with("ssh-") {
        true => "an SSH key, to which nothing is encrypted here".to_owned(),
        false => format!("`{}`, which is no recipient", text.chars().take(SHOWN).collect::<String>()),
    };
    format!("{FIELD}[{index}] is {what}: give the public half of an X25519 identity of age (age1...)")
}

/// Exports the weights of a run, encrypted, to a directory. Until they are, they are at `plain`, which then is no more.
pub(crate) async fn export_encrypted(
    learner: &dyn HostedLearner,
    recipients: &Recipients,
    plain: PathBuf,
    directory: &Path,
) -> Result<(), BackendError> {
    let exported = learner.export_weights(&plain).await;
    let (recipients, directory) = (recipients.clone(), directory.to_path_buf());
    run_blocking(move || {
        let encrypted = exported.and_then(|()| Ok(recipients.encrypt_directory(&plain, &directory)?));
        for left in [plain.with_extension("encrypted"), plain] {
            match std::fs::remove_dir_all(&left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TinkerServerError::io("remove", &left)(error).into());
                }
                _ => {}
            }
        }
        encrypted
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age_identity::Identity;

    fn decrypted(path: &Path, identity: &Identity) -> Option<Vec<u8>> {
        identity.decrypt(&std::fs::read(path).unwrap())
    }

    #[test]
    fn every_file_is_read_by_each_recipient_and_by_nobody_else() {
        let home = tempfile::tempdir().unwrap();
        let plain = home.path().join("plain");
        std::fs::create_dir(&plain).unwrap();
        // More than one of the pieces that age encrypts by.
        let weights: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
        std::fs::write(plain.join("adapter_model.safetensors"), &weights).unwrap();
        std::fs::write(plain.join("adapter_config.json"), "{}").unwrap();
        let [first, second, other] = [(); 3].map(|()| Identity::generate());
        let texts = [&first, &second].map(|identity| identity.recipient());
        let recipients = Recipients::read(&texts).unwrap().unwrap();
        assert_eq!(format!("{recipients:?}"), format!("{texts:?}"));
        let encrypted = home.path().join("run/external_weights/a");
        recipients.encrypt_directory(&plain, &encrypted).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(&encrypted).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["adapter_config.json.age", "adapter_model.safetensors.age"]);
        let path = encrypted.join("adapter_model.safetensors.age");
        for identity in [&first, &second] {
            assert_eq!(decrypted(&path, identity).as_ref(), Some(&weights));
        }
        assert_eq!(decrypted(&path, &other), None);
        assert_eq!(decrypted(&encrypted.join("adapter_config.json.age"), &second).as_deref(), Some(&b"{}"[..]));
        assert!(!plain.with_extension("encrypted").exists());
    }

    #[test]
    fn recipients_that_are_none_are_named() {
        assert!(Recipients::read(&[]).unwrap().is_none());
        let good = Identity::generate().recipient();
        let mut mistyped = good.clone();
        mistyped.replace_range(10..11, if &good[10..11] == "q" { "p" } else { "q" });
        for (second, words) in [
            ("", "age_encryption_recipients[1] is ``"),
            (mistyped.as_str(), "age_encryption_recipients[1] is `age1"),
            ("ssh-ed25519 AAAA", "age_encryption_recipients[1] is an SSH key"),
        ] {
            let refused = Recipients::read(&[good.clone(), second.to_owned()]).unwrap_err();
            assert!(refused.contains(words) && refused.contains("(age1...)"), "{refused}");
        }
        let refused = Recipients::read(&vec![good; 11]).unwrap_err();
        assert!(refused.contains("names 11 recipients"), "{refused}");
    }
}
