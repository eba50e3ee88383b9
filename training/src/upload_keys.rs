use fulgurite_config::declarations::LoadedConfig;

const UPLOAD_KEYS: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Variables with the keys to what is uploaded, which no program may see that a run starts: whoever has them can replace
/// the run's weights.
pub(crate) fn upload_keys(loaded: &LoadedConfig) -> Vec<String> {
    let keys: &[&str] = if loaded.config.trainer.common.checkpoint_url.is_some() { &UPLOAD_KEYS } else { &[] };
    keys.iter().map(|key| (*key).to_owned()).collect()
}
