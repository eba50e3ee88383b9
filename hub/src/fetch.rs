//! Fetching a model directory, or files by name, from Hugging Face's hub or one that speaks as it does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::digest::Digest;
use crate::download::{WantedFile, download};
use crate::hub::{Hub, Listing};
use crate::patience::Waiting;
use crate::place::Place;
use crate::selection::{self, HubFile, WEIGHTS_INDEX};
use crate::source::ModelSource;

/// A fetch from the hub.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The model.
    pub source: ModelSource,
    /// Directory that the files are written into; made where it is missing.
    pub directory: PathBuf,
    /// Files by their paths in the repository; what a model directory needs if there are none.
    pub files: Vec<String>,
}

/// A fetch that is over.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The commit that the files are of, in hexadecimal digits.
    pub commit: String,
    /// Files that were fetched: those that were whole before are not counted.
    pub files: usize,
    /// Bytes that came over the network.
    pub bytes: u64,
}

/// How a file came to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// It was there.
    Present,
    /// All of it was fetched.
    Fetched,
    /// An earlier command had fetched its beginning.
    Resumed,
}

impl FileOutcome {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Fetched => "fetched",
            Self::Resumed => "resumed",
        }
    }
}

/// A file that is whole.
#[derive(Clone, Debug)]
pub struct WholeFile<'f> {
    /// Its path in the repository.
    pub path: &'f str,
    /// Its bytes.
    pub size: u64,
    /// How it came to be whole.
    pub outcome: FileOutcome,
    /// Bytes of it that came over the network.
    pub bytes_fetched: u64,
    /// What it was checked by: the kind of the hub's digest, or `size`.
    pub checked_by: &'static str,
    /// The hub's digest of it, in hexadecimal digits.
    pub digest: Option<String>,
}

/// Watches a fetch.
pub trait FetchObserver {
    /// So many bytes of a file are there, of so many.
    fn bytes(&mut self, file: &str, there: u64, size: u64);

    /// A file is whole.
    fn file(&mut self, file: &WholeFile<'_>);
}

/// Fetches what was requested. A file stands under its name once all are whole, each checked by the hub's digest; an
/// interrupted fetch goes on where it stopped. `waiting` hears of tries that failed, and will be made again.
///
/// # Errors
/// If the hub does not have what was requested, or does not answer; if a file is not what the hub lists; if the disk has no
/// room, or another command fetches into the directory.
pub async fn fetch(request: &FetchRequest, waiting: Waiting, observer: &mut dyn FetchObserver) -> Result<Fetched> {
    let FetchRequest { source, directory, files: names } = request;
    let hub = Hub::from_environment(source.clone(), waiting)?;
    let context = || format!("cannot fetch {source}");
    let Listing { commit, files } = hub.listing().await.with_context(context)?;
    let first = selection::known_at_once(&files, names).with_context(context)?;
    let place = Place::open(directory)?;
    let mut fetching = Fetching { hub, commit, place, observer, fetched: vec![], bytes: 0 };
    fetching.all(first).await.with_context(context)?;
    if names.is_empty() {
        fetching.shards(&files).await.with_context(context)?;
    }
    let Fetching { commit, place, fetched, bytes, .. } = fetching;
    let count = fetched.len();
    place.settle(&commit, fetched)?;
    Ok(Fetched { commit, files: count, bytes })
}

/// A fetch on its way.
struct Fetching<'o> {
    hub: Hub,
    commit: String,
    place: Place,
    observer: &'o mut dyn FetchObserver,
    /// Files that are whole, and not in their place yet.
    fetched: Vec<WantedFile>,
    /// Bytes that came over the network.
    bytes: u64,
}

/// The index of weights that are several files.
#[derive(Deserialize)]
struct WeightsIndex {
    weight_map: BTreeMap<String, String>,
}

impl Fetching<'_> {
    /// Weights that are several files, which only their index names.
    async fn shards(&mut self, files: &[HubFile]) -> Result<()> {
        if !files.iter().any(|file| file.path == WEIGHTS_INDEX) {
            return Ok(());
        }
        let shards = self.named_by_index()?;
        self.all(selection::named(files, &shards)?).await
    }

    fn named_by_index(&self) -> Result<Vec<String>> {
        let path = match self.fetched.iter().find(|file| file.path == WEIGHTS_INDEX) {
            Some(index) => self.place.part(&self.commit, index),
            None => self.place.path(WEIGHTS_INDEX),
        };
        let context = || format!("{WEIGHTS_INDEX} cannot be read");
        let bytes = std::fs::read(path).with_context(context)?;
        let index: WeightsIndex = serde_json::from_slice(&bytes).with_context(context)?;
        let shards: BTreeSet<String> = index.weight_map.into_values().collect();
        ensure!(!shards.is_empty(), "{WEIGHTS_INDEX} names no file");
        Ok(shards.into_iter().collect())
    }

    async fn all(&mut self, files: Vec<HubFile>) -> Result<()> {
        let mut missing = Vec::new();
        for file in files {
            let wanted = self.wanted(file).await?;
            if self.place.holds(&wanted)? {
                self.report(&wanted, FileOutcome::Present, 0);
            } else {
                missing.push(wanted);
            }
        }
        self.place.check_room(&self.commit, &missing)?;
        for file in missing {
            self.one(file).await?;
        }
        Ok(())
    }

    async fn wanted(&self, mut file: HubFile) -> Result<WantedFile> {
        let context = file.path.clone();
        self.hub.complete(&self.commit, &mut file).await.context(context)?;
        let HubFile { path, size, digest } = file;
        let size = size.with_context(|| format!("the hub does not say how large {path} is"))?;
        Ok(WantedFile { path, size, digest })
    }

    async fn one(&mut self, file: WantedFile) -> Result<()> {
        let (part, observer) = (self.place.part(&self.commit, &file), &mut *self.observer);
        let watch = |there| observer.bytes(&file.path, there, file.size);
        let began_at = download(&self.hub, &self.commit, &file, &part, watch).await.context(file.path.clone())?;
        let bytes = file.size - began_at;
        self.report(&file, if began_at == 0 { FileOutcome::Fetched } else { FileOutcome::Resumed }, bytes);
        self.bytes += bytes;
        self.fetched.push(file);
        Ok(())
    }

    fn report(&mut self, file: &WantedFile, outcome: FileOutcome, bytes_fetched: u64) {
        let digest = file.digest.as_ref();
        self.observer.file(&WholeFile {
            path: &file.path,
            size: file.size,
            outcome,
            bytes_fetched,
            checked_by: digest.map_or("size", Digest::kind),
            digest: digest.map(|digest| digest.digits().to_owned()),
        });
    }
}
