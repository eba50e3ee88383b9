use std::fmt::{self, Debug, Formatter};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fulgurite_backends::DigestingWriter;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, WriteMultipart};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use super::error::ArchiveError;
use super::manifest::Manifest;
use super::open_archive;

/// The object that makes a directory whole.
const MANIFEST: &str = "fulgurite-checkpoint.json";
/// The object that says which run it is, and how it was configured.
const RUN: &str = "config.json";

/// Bytes that are sent in one request; larger files are sent in parts of this size.
const PART: usize = 8 << 20;
/// Parts under way at a time.
const PARTS_AT_A_TIME: usize = 4;

/// Checkpoints of runs in an object store.
#[derive(Clone)]
pub struct CheckpointArchive {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// As the config says it.
    url: String,
}

impl Debug for CheckpointArchive {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CheckpointArchive").field("url", &self.url).finish_non_exhaustive()
    }
}

impl CheckpointArchive {
    /// The one at `s3://BUCKET[/PREFIX]`, with credentials, region and endpoint from the environment, by the names that
    /// AWS's own tools have for them. Nothing is sent yet.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn open(url: &str) -> Result<Self, ArchiveError> {
        let (store, prefix) = open_archive::open(url)?;
        Ok(Self { store, prefix, url: url.trim_end_matches('/').to_owned() })
    }

    /// One in this process's memory.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        Self { store, prefix: ObjectPath::default(), url: "s3://memory".to_owned() }
    }

    /// The runs that have a place here, in the order of their ids.
    ///
    /// # Errors
    /// If the object store cannot be asked.
    pub async fn runs(&self) -> Result<Vec<String>, ArchiveError> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let listed = self.store.list_with_delimiter(prefix).await;
        let listed = listed.map_err(ArchiveError::store("list", self.url.clone()))?;
        let mut runs: Vec<String> =
            listed.common_prefixes.iter().filter_map(|path| Some(path.filename()?.to_owned())).collect();
        runs.sort();
        Ok(runs)
    }

    /// The place of a run.
    pub fn of_run(&self, run_id: &str) -> RunArchive {
        RunArchive { archive: self.clone(), run_id: run_id.to_owned() }
    }
}

/// The checkpoints of one run in an object store.
#[derive(Clone, Debug)]
pub struct RunArchive {
    archive: CheckpointArchive,
    run_id: String,
}

impl RunArchive {
    /// Where it is, for people.
    pub fn place(&self) -> String {
        format!("{}/{}", self.archive.url, self.run_id)
    }

    /// The file that says which run it is, if there is one.
    ///
    /// # Errors
    /// If the object store cannot be asked.
    pub async fn run_file(&self) -> Result<Option<String>, ArchiveError> {
        let Some(bytes) = self.read(RUN).await? else { return Ok(None) };
        let text = String::from_utf8(bytes.to_vec());
        text.map(Some).map_err(|error| self.malformed(RUN, error.to_string()))
    }

    /// Takes the place for the run that `file` is of, which `instance` in it tells from others of its name. Shows that the
    /// place can be written.
    ///
    /// # Errors
    /// If another run has it, or the object store refuses.
    pub async fn take(&self, file: &str) -> Result<(), ArchiveError> {
        let instance = |text: &str| -> Option<String> {
            let file: Value = serde_json::from_str(text).ok()?;
            Some(file["instance"].as_str()?.to_owned())
        };
        if let Some(there) = self.run_file().await?
            && instance(&there) != instance(file)
        {
            return Err(ArchiveError::InUse { place: self.place() });
        }
        self.put(RUN, Bytes::copy_from_slice(file.as_bytes())).await
    }

    /// Puts the files of a directory there under a name, and the manifest behind them. What was there of an upload that
    /// did not come to its end is replaced.
    ///
    /// # Errors
    /// If a file cannot be read, or the object store refuses or is not reached; then the name does not count as there.
    pub(crate) async fn upload(&self, name: &str, directory: &Path, manifest: &Manifest) -> Result<(), ArchiveError> {
        let object = format!("{name}/{MANIFEST}");
        // That of an update which was undone must not vouch for these files.
        if self.read(&object).await?.is_some() {
            let path = self.path(&object);
            let removed = self.archive.store.delete(&path).await;
            removed.map_err(ArchiveError::store("remove", self.shown(&path)))?;
        }
        for file in manifest.files.keys() {
            self.put_file(&format!("{name}/{file}"), &directory.join(file)).await?;
        }
        let text = serde_json::to_vec(manifest);
        let text = text.map_err(|error| self.malformed(&object, error.to_string()))?;
        self.put(&object, text.into()).await
    }

    /// What is there under a name, if it is whole.
    ///
    /// # Errors
    /// If the object store cannot be asked, or the manifest is none.
    pub(crate) async fn manifest(&self, name: &str) -> Result<Option<Manifest>, ArchiveError> {
        let object = format!("{name}/{MANIFEST}");
        let Some(bytes) = self.read(&object).await? else { return Ok(None) };
        let manifest = serde_json::from_slice(&bytes);
        manifest.map(Some).map_err(|error| self.malformed(&object, format!("it is no manifest: {error}")))
    }

    /// The names below a folder that are whole, in order.
    ///
    /// # Errors
    /// If the object store cannot be asked.
    pub(crate) async fn names(&self, folder: &str) -> Result<Vec<String>, ArchiveError> {
        let objects = self.objects(folder).await?;
        let base = self.path("");
        let name = |object: &ObjectPath| {
            let below: Vec<_> = object.prefix_match(&base)?.map(|part| part.as_ref().to_owned()).collect();
            let (last, name) = below.split_last()?;
            (last == MANIFEST).then(|| name.join("/"))
        };
        let mut names: Vec<String> = objects.iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Makes a directory of what is there under a name. It appears whole or not at all.
    ///
    /// # Errors
    /// If nothing whole is there, a file is not what was uploaded, or the object store is not reached.
    pub(crate) async fn download(&self, name: &str, directory: &Path) -> Result<(), ArchiveError> {
        let manifest = self.manifest(name).await?;
        let manifest = manifest.ok_or_else(|| self.malformed(name, "nothing whole is there".to_owned()))?;
        let partial = directory.with_extension("partial");
        match std::fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ArchiveError::file(&partial)(error));
            }
            _ => {}
        }
        std::fs::create_dir_all(&partial).map_err(ArchiveError::file(&partial))?;
        for (file, digest) in &manifest.files {
            self.fetch_file(&format!("{name}/{file}"), digest, &partial.join(file)).await?;
        }
        std::fs::rename(&partial, directory).map_err(ArchiveError::file(directory))
    }

    /// Removes what is there under a name; the manifest first, so that no part of it counts as whole.
    ///
    /// # Errors
    /// If the object store refuses or is not reached.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        let mut objects = self.objects(name).await?;
        objects.sort_by_key(|object| object.filename() != Some(MANIFEST));
        for object in objects {
            let removed = self.archive.store.delete(&object).await;
            removed.map_err(ArchiveError::store("remove", self.shown(&object)))?;
        }
        Ok(())
    }

    async fn objects(&self, below: &str) -> Result<Vec<ObjectPath>, ArchiveError> {
        let path = self.path(below);
        let listed = self.archive.store.list(Some(&path)).map_ok(|object| object.location).try_collect().await;
        listed.map_err(ArchiveError::store("list", self.shown(&path)))
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, ArchiveError> {
        let path = self.path(name);
        let failed = |error| ArchiveError::store("read", self.shown(&path))(error);
        match self.archive.store.get(&path).await {
            Ok(found) => found.bytes().await.map(Some).map_err(failed),
            // Of a bucket that is not there this says the same; whoever writes finds that out.
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ArchiveError> {
        let path = self.path(name);
        let put = self.archive.store.put(&path, bytes.into()).await;
        put.map(drop).map_err(ArchiveError::store("write", self.shown(&path)))
    }

    async fn put_file(&self, name: &str, file: &Path) -> Result<(), ArchiveError> {
        let mut opened = tokio::fs::File::open(file).await.map_err(ArchiveError::file(file))?;
        let first = read_part(&mut opened).await.map_err(ArchiveError::file(file))?;
        if first.len() < PART {
            return self.put(name, first).await;
        }
        let path = self.path(name);
        let failed = |error| ArchiveError::store("write", self.shown(&path))(error);
        let upload = self.archive.store.put_multipart(&path).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let mut part = first;
        while !part.is_empty() {
            let room = upload.wait_for_capacity(PARTS_AT_A_TIME).await;
            if let Err(error) = room {
                // What is left of it is the bucket's to clear: it is no object.
                let _ = upload.abort().await;
                return Err(failed(error));
            }
            upload.put(part);
            part = match read_part(&mut opened).await {
                Ok(part) => part,
                Err(error) => {
                    let _ = upload.abort().await;
                    return Err(ArchiveError::file(file)(error));
                }
            };
        }
        upload.finish().await.map(drop).map_err(failed)
    }

    async fn fetch_file(&self, name: &str, digest: &str, file: &Path) -> Result<(), ArchiveError> {
        let path = self.path(name);
        let failed = |error| ArchiveError::store("read", self.shown(&path))(error);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(ArchiveError::file(parent))?;
        }
        let mut stream = self.archive.store.get(&path).await.map_err(failed)?.into_stream();
        let mut written = DigestingWriter::new(std::fs::File::create(file).map_err(ArchiveError::file(file))?);
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(|error| ArchiveError::store("read", self.shown(&path))(error))?;
            written.write_all(&bytes).map_err(ArchiveError::file(file))?;
        }
        let (opened, found) = written.finish();
        opened.sync_all().map_err(ArchiveError::file(file))?;
        match found == digest {
            true => Ok(()),
            false => {
                Err(self.malformed(name, format!("it is not what was saved: its SHA-256 is {found}, not {digest}")))
            }
        }
    }

    fn path(&self, name: &str) -> ObjectPath {
        let parts = self.archive.prefix.as_ref().split('/').chain([self.run_id.as_str()]).chain(name.split('/'));
        parts.filter(|part| !part.is_empty()).collect()
    }

    fn shown(&self, path: &ObjectPath) -> String {
        let below = path.as_ref().strip_prefix(self.archive.prefix.as_ref()).unwrap_or(path.as_ref());
        format!("{}/{}", self.archive.url, below.trim_start_matches('/'))
    }

    fn malformed(&self, name: &str, message: String) -> ArchiveError {
        ArchiveError::Malformed { place: format!("{}/{name}", self.place()), message }
    }
}

/// As much as a part holds, or less at the end of the file.
async fn read_part(file: &mut tokio::fs::File) -> std::io::Result<Bytes> {
    let mut part = Vec::new();
    file.take(PART as u64).read_to_end(&mut part).await?;
    Ok(part.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn directory(files: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, Manifest) {
        let home = tempfile::tempdir().unwrap();
        let mut manifest = Manifest { state: json!({ "step": 3 }), weights_version: 3, ..Manifest::default() };
        for (name, bytes) in files {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            manifest.files.insert((*name).to_owned(), fulgurite_backends::file_digest(&path).unwrap());
        }
        (home, manifest)
    }

    #[tokio::test]
    async fn what_is_uploaded_comes_back_and_counts_from_its_manifest_on() {
        let run = CheckpointArchive::in_memory().of_run("r");
        // One of several parts, one of exactly a part, and one below a directory.
        let files = [("large", vec![7; 2 * PART + 5]), ("part", vec![1; PART]), ("inner/small", b"abc".to_vec())];
        let (home, manifest) = directory(&files);
        assert_eq!(run.manifest("checkpoints/000003").await.unwrap(), None);
        run.upload("checkpoints/000003", home.path(), &manifest).await.unwrap();
        run.put("checkpoints/000004/large", Bytes::from_static(b"half")).await.unwrap();
        run.put("behind-model/000001/fulgurite-checkpoint.json", Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(run.names("checkpoints").await.unwrap(), ["checkpoints/000003"]);
        assert_eq!(run.manifest("checkpoints/000003").await.unwrap(), Some(manifest.clone()));
        let back = home.path().join("back");
        run.download("checkpoints/000003", &back).await.unwrap();
        for (name, bytes) in &files {
            assert!(std::fs::read(back.join(name)).unwrap() == *bytes, "{name}");
        }
        let refused = run.download("checkpoints/000004", &home.path().join("half")).await.unwrap_err().to_string();
        assert_eq!(refused, "s3://memory/r/checkpoints/000004: nothing whole is there");
        run.remove("checkpoints/000003").await.unwrap();
        assert!(run.names("checkpoints").await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_object_that_was_changed_is_refused_and_leaves_no_directory() {
        let run = CheckpointArchive::in_memory().of_run("r");
        let (home, manifest) = directory(&[("weights", b"abc".to_vec())]);
        run.upload("checkpoints/000001", home.path(), &manifest).await.unwrap();
        run.put("checkpoints/000001/weights", Bytes::from_static(b"abd")).await.unwrap();
        let back = home.path().join("back");
        let refused = run.download("checkpoints/000001", &back).await.unwrap_err().to_string();
        assert!(refused.contains("checkpoints/000001/weights: it is not what was saved"), "{refused}");
        assert!(!back.exists());
    }

    #[tokio::test]
    async fn a_place_is_of_one_run_and_found_by_its_name() {
        let archive = CheckpointArchive::in_memory();
        let (one, other) = (r#"{"instance":"a"}"#, r#"{"instance":"b"}"#);
        let run = archive.of_run("r");
        assert_eq!(run.run_file().await.unwrap(), None);
        run.take(one).await.unwrap();
        run.take(one).await.unwrap();
        let refused = run.take(other).await.unwrap_err().to_string();
        assert!(refused.starts_with("s3://memory/r holds the checkpoints of another run"), "{refused}");
        archive.of_run("a").take(other).await.unwrap();
        assert_eq!(archive.runs().await.unwrap(), ["a", "r"]);
        assert_eq!(run.run_file().await.unwrap().as_deref(), Some(one));
    }
}
