use std::collections::BTreeSet;

use fulgurite_backends::tinker::wire::LoraConfig;

use super::names::fresh_seed;
use crate::{LoraModule, LoraOptions};

/// The greatest rank of an adapter: a matrix of it takes as many numbers for each of its inputs and outputs.
const GREATEST_RANK: u32 = 1024;

/// What is trained beside the base, as a client asks for it; nothing where it asks for all weights, which is rank 0.
pub(super) fn asked_adapter(asked: Option<LoraConfig>) -> Result<Option<LoraConfig>, String> {
    match asked.filter(|config| config.rank > 0) {
        Some(config) if config.rank > GREATEST_RANK => {
            Err(format!("lora_config.rank is {}, but must be at most {GREATEST_RANK}", config.rank))
        }
        Some(config) if modules(&config).is_empty() => {
            Err("train_attn, train_mlp and train_unembed are all false, which leaves nothing to train".into())
        }
        asked => Ok(asked.map(|config| LoraConfig { seed: config.seed.or_else(|| Some(fresh_seed())), ..config })),
    }
}

/// The same in the engine's words.
pub(super) fn lora_options(config: &LoraConfig) -> LoraOptions {
    let seed = config.seed.unwrap_or_default();
    LoraOptions { modules: modules(config), ..LoraOptions::new(config.rank as usize, seed) }
}

/// Whether what one adapter has learnt can be loaded into another.
pub(super) fn is_same_form(left: Option<LoraConfig>, right: Option<LoraConfig>) -> bool {
    let form = |config: Option<LoraConfig>| config.map(|config| LoraConfig { seed: None, ..config });
    form(left) == form(right)
}

fn modules(config: &LoraConfig) -> BTreeSet<LoraModule> {
    let attention = config.train_attn.then_some(LoraModule::ATTENTION).into_iter().flatten();
    let feed_forward = config.train_mlp.then_some(LoraModule::FEED_FORWARD).into_iter().flatten();
    attention.chain(feed_forward).chain(config.train_unembed.then_some(LoraModule::Head)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: LoraConfig =
        LoraConfig { rank: 4, seed: Some(7), train_unembed: false, train_mlp: true, train_attn: true };

    #[test]
    fn what_is_asked_for_is_what_is_trained() {
        let options = lora_options(&CONFIG);
        assert_eq!((options.rank, options.seed, options.alpha), (4, 7, 32.0));
        assert_eq!(options.modules, LoraModule::ALL[..7].iter().copied().collect());
        let head = LoraConfig { train_unembed: true, train_mlp: false, train_attn: false, ..CONFIG };
        assert_eq!(lora_options(&head).modules, [LoraModule::Head].into());
    }

    #[test]
    fn rank_0_is_all_weights_and_an_adapter_of_nothing_is_refused() {
        assert_eq!(asked_adapter(None), Ok(None));
        assert_eq!(asked_adapter(Some(LoraConfig { rank: 0, ..CONFIG })), Ok(None));
        assert_eq!(asked_adapter(Some(CONFIG)), Ok(Some(CONFIG)));
        let seeded = asked_adapter(Some(LoraConfig { seed: None, ..CONFIG })).unwrap().unwrap();
        assert!(seeded.seed.is_some() && is_same_form(Some(seeded), Some(CONFIG)));
        assert!(!is_same_form(Some(CONFIG), None));
        let nothing = LoraConfig { train_mlp: false, train_attn: false, ..CONFIG };
        assert!(asked_adapter(Some(nothing)).unwrap_err().contains("nothing to train"));
    }
}
