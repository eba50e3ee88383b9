//! One file: fetched into a part that is kept until it is whole, and checked.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use reqwest::header::CONTENT_RANGE;
use reqwest::{Response, StatusCode};

use crate::digest::{Digest, FileHasher};
use crate::hub::Hub;
use crate::patience::{Patience, Trouble};

/// After so many bytes that arrived, a connection that breaks is the first to do so.
const PROGRESS: u64 = 1 << 20;

/// A file that is wanted whole.
#[derive(Clone, Debug)]
pub(crate) struct WantedFile {
    /// Its path in the repository and below the directory.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) size: u64,
    /// What it must be.
    pub(crate) digest: Option<Digest>,
}

/// Fetches a file into `part`, going on where an earlier command stopped, and says at how many bytes it began. `report` is
/// told how many are there.
pub(crate) async fn download(
    hub: &Hub,
    commit: &str,
    wanted: &WantedFile,
    part: &Path,
    mut report: impl FnMut(u64),
) -> Result<u64> {
    let mut part = Part::open(part, wanted)?;
    let mut began_at = part.length;
    report(began_at);
    loop {
        let mut patience = Patience::default();
        let mut counted_from = part.length;
        while let Err(trouble) = fetch_rest(hub, commit, wanted, &mut part, &mut report).await {
            if part.length >= counted_from + PROGRESS {
                patience.renew();
            }
            counted_from = part.length;
            hub.wait(&mut patience, trouble).await?;
        }
        if part.hasher.agrees() {
            part.file.sync_all().with_context(|| format!("cannot write {}", part.path.display()))?;
            return Ok(began_at);
        }
        part.clear()?;
        if began_at == 0 {
            bail!("what arrived is not the file that the hub lists: its digest is another. Nothing of it was kept");
        }
        // What an earlier command left may be at fault.
        began_at = 0;
    }
}

/// Asks once for what is missing.
async fn fetch_rest(
    hub: &Hub,
    commit: &str,
    wanted: &WantedFile,
    part: &mut Part,
    report: &mut impl FnMut(u64),
) -> Result<(), Trouble> {
    if part.length == wanted.size {
        return Ok(());
    }
    let mut response = hub.file(commit, &wanted.path, part.length).await?.response;
    find_place(&response, wanted, part)?;
    while let Some(chunk) = response.chunk().await.map_err(Trouble::broken)? {
        if part.length + chunk.len() as u64 > wanted.size {
            part.clear().map_err(Trouble::Lasting)?;
            return Err(Trouble::Lasting(anyhow!("more arrived than the {} bytes that the hub lists", wanted.size)));
        }
        part.append(&chunk).map_err(Trouble::Lasting)?;
        report(part.length);
    }
    if part.length < wanted.size {
        let error = anyhow!("only {} of {} bytes arrived", part.length, wanted.size);
        return Err(Trouble::Passing { error, wait: None });
    }
    Ok(())
}

/// Makes the part end where the answer begins: at the place that was asked for, or at the beginning.
fn find_place(response: &Response, wanted: &WantedFile, part: &mut Part) -> Result<(), Trouble> {
    let header = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let begins_at = match (response.status(), header.and_then(range)) {
        (StatusCode::PARTIAL_CONTENT, Some((from, total))) if from == part.length && total == wanted.size => from,
        (StatusCode::PARTIAL_CONTENT, _) => {
            part.clear().map_err(Trouble::Lasting)?;
            return Err(Trouble::Passing { error: anyhow!("another part of the file was sent"), wait: None });
        }
        _ => 0,
    };
    let expected = wanted.size - begins_at;
    if let Some(length) = response.content_length().filter(|length| *length != expected) {
        let error = anyhow!("{length} bytes are sent where the hub lists {expected}: another file, or a proxy's page");
        return Err(Trouble::Lasting(error));
    }
    if begins_at == 0 { part.clear().map_err(Trouble::Lasting) } else { Ok(()) }
}

/// Reads `bytes FROM-TO/TOTAL`.
fn range(header: &str) -> Option<(u64, u64)> {
    let (span, total) = header.strip_prefix("bytes ")?.split_once('/')?;
    Some((span.split_once('-')?.0.parse().ok()?, total.parse().ok()?))
}

/// What is there of a file, and the digest so far.
struct Part {
    path: PathBuf,
    file: File,
    length: u64,
    fresh: FileHasher,
    hasher: FileHasher,
}

impl Part {
    fn open(path: &Path, wanted: &WantedFile) -> Result<Self> {
        let context = || format!("cannot write {}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).with_context(context)?;
        let fresh = FileHasher::new(wanted.digest.as_ref(), wanted.size);
        let mut hasher = fresh.clone();
        let length = hasher.update_from(&mut file).with_context(context)?;
        let mut part = Self { path: path.to_owned(), file, length, fresh, hasher };
        if length > wanted.size {
            part.clear()?;
        }
        Ok(part)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| {
            format!("cannot write {}; the same command goes on from here later", self.path.display())
        })?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        cleared.with_context(|| format!("cannot write {}", self.path.display()))?;
        self.length = 0;
        self.hasher = self.fresh.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_or_is_none() {
        assert_eq!(range("bytes 10-19/20"), Some((10, 20)));
        for odd in ["bytes */20", "bytes 10-19/*", "items 1-2/3", "bytes -1-2/3", ""] {
            assert_eq!(range(odd), None, "{odd}");
        }
    }
}
