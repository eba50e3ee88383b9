use crate::wire::LoraConfig;

use crate::server::state::names::new_seed;

/// The greatest rank of an adapter: a matrix of it takes as many numbers for each of its inputs and outputs.
const GREATEST_RANK: u32 = 1024;

/// What is trained beside the base, as a client asks for it; nothing where it asks for all weights, which is rank 0.
pub(crate) fn requested_adapter(asked: Option<LoraConfig>) -> Result<Option<LoraConfig>, String> {
    match asked.filter(|config| config.rank > 0) {
        Some(config) if config.rank > GREATEST_RANK => {
            Err(format!("lora_config.rank is {}, but must be at most {GREATEST_RANK}", config.rank))
        }
        Some(config) if !(config.train_attn || config.train_mlp || config.train_unembed) => {
            Err("train_attn, train_mlp and train_unembed are all false, which leaves nothing to train".into())
        }
        asked => Ok(asked.map(|config| LoraConfig { seed: config.seed.or_else(|| Some(new_seed())), ..config })),
    }
}

/// Whether what one adapter has learnt can be loaded into another.
pub(crate) fn is_same_form(left: Option<LoraConfig>, right: Option<LoraConfig>) -> bool {
    let form = |config: Option<LoraConfig>| config.map(|config| LoraConfig { seed: None, ..config });
    form(left) == form(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: LoraConfig =
        LoraConfig { rank: 4, seed: Some(7), train_unembed: false, train_mlp: true, train_attn: true };

    #[test]
    fn rank_0_is_all_weights_and_an_adapter_of_nothing_is_refused() {
        assert_eq!(requested_adapter(None), Ok(None));
        assert_eq!(requested_adapter(Some(LoraConfig { rank: 0, ..CONFIG })), Ok(None));
        assert_eq!(requested_adapter(Some(CONFIG)), Ok(Some(CONFIG)));
        let seeded = requested_adapter(Some(LoraConfig { seed: None, ..CONFIG })).unwrap().unwrap();
        assert!(seeded.seed.is_some() && is_same_form(Some(seeded), Some(CONFIG)));
        assert!(!is_same_form(Some(CONFIG), None));
        let nothing = LoraConfig { train_mlp: false, train_attn: false, ..CONFIG };
        assert!(requested_adapter(Some(nothing)).unwrap_err().contains("nothing to train"));
    }
}
