//! Where the admin key is found: never in the config itself, which is shown and kept.

use anyhow::{Context, Result, bail};
use fulgurite_store::AdminKey;

use crate::declarations::{LoadedConfig, ServerConfig};

/// The variable that holds the admin key, of a server that is told of no other place, and of whoever asks one.
pub const VARIABLE: &str = "FULGURITE_ADMIN_KEY";

/// The variable that holds a worker's key.
pub const WORKERS_VARIABLE: &str = "FULGURITE_WORKER_KEY";

/// The variables that no program may see which a server starts: its admin key may be in them, or its database's password.
pub fn variables(server: &ServerConfig) -> Vec<String> {
    [VARIABLE, "FULGURITE_STORE", WORKERS_VARIABLE]
        .map(str::to_owned)
        .into_iter()
        .chain(server.admin_key_env.clone())
        .collect()
}

/// Keeps other processes of the same user, such as agents, from reading this one's memory and the environment that it was
/// started with. Those of the superuser read them all the same.
pub fn keep_to_this_process() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "processes of the same user may read the admin key in this one's environment");
    }
}

/// A server's admin key, if one is set. From then on it is in this process alone.
pub fn of_server(loaded: &LoadedConfig) -> Result<Option<AdminKey>> {
    let key = find(loaded)?;
    if key.is_some() {
        keep_to_this_process();
    }
    Ok(key)
}

fn find(loaded: &LoadedConfig) -> Result<Option<AdminKey>> {
    let server = &loaded.config.server;
    let (text, place) = match (&server.admin_key_env, &server.admin_key_file) {
        (Some(_), Some(_)) => bail!("set one of server.admin_key_env and server.admin_key_file"),
        (Some(variable), None) => {
            let place = format!("the environment variable {variable} (server.admin_key_env)");
            (std::env::var(variable).with_context(|| place.clone())?, place)
        }
        (None, Some(file)) => {
            let file = loaded.resolve(file);
            let place = format!("{} (server.admin_key_file)", file.display());
            (std::fs::read_to_string(file).with_context(|| format!("cannot read {place}"))?, place)
        }
        (None, None) => return of_environment(),
    };
    Ok(Some(AdminKey::new(&text).context(place)?))
}

/// The admin key in the environment, if there is one; an empty one is none.
pub fn of_environment() -> Result<Option<AdminKey>> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
    let key = AdminKey::new(&text.to_string_lossy()).with_context(|| format!("the environment variable {VARIABLE}"))?;
    Ok(Some(key))
}
