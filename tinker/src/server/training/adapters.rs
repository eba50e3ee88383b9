use crate::server::input::warn;
use crate::server::state::names::new_seed;
use crate::wire::LoraConfig;

/// A rank up to this is taken beside a model of any width: recipes name theirs for large models.
const SMALL_RANK: usize = 512;

/// What is trained beside a base of this width, as a client asks for it; nothing where it asks for all weights, which is
/// rank 0.
pub(crate) fn requested_adapter(
    requested: Option<LoraConfig>,
    hidden_size: usize,
) -> Result<Option<LoraConfig>, String> {
    let greatest = hidden_size.max(SMALL_RANK);
    match requested.filter(|config| config.rank > 0) {
        Some(config) if config.rank as usize > greatest => Err(format!(
            "lora_config.rank is {}, but must be at most {greatest} beside a model of hidden size {hidden_size}; rank 0 \
             trains all weights",
            config.rank
        )),
        Some(config) if !(config.train_attn || config.train_mlp || config.train_unembed) => {
            Err("train_attn, train_mlp and train_unembed are all false, which leaves nothing to train".into())
        }
        requested => Ok(requested
            .inspect(|config| warn_of_rank(config.rank as usize, hidden_size))
            .map(|config| LoraConfig { seed: config.seed.or_else(|| Some(new_seed())), ..config })),
    }
}

/// No product of a rank above the width says more than one of that rank.
fn warn_of_rank(rank: usize, hidden_size: usize) {
    if rank > hidden_size {
        warn(format!(
            "lora_config.rank is {rank}, above the model's hidden size {hidden_size}: it learns no more than rank \
             {hidden_size}, and takes more time and memory"
        ));
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
        let requested_adapter = |requested| requested_adapter(requested, 64);
        assert_eq!(requested_adapter(None), Ok(None));
        assert_eq!(requested_adapter(Some(LoraConfig { rank: 0, ..CONFIG })), Ok(None));
        assert_eq!(requested_adapter(Some(CONFIG)), Ok(Some(CONFIG)));
        let seeded = requested_adapter(Some(LoraConfig { seed: None, ..CONFIG })).unwrap().unwrap();
        assert!(seeded.seed.is_some() && is_same_form(Some(seeded), Some(CONFIG)));
        assert!(!is_same_form(Some(CONFIG), None));
        let nothing = LoraConfig { train_mlp: false, train_attn: false, ..CONFIG };
        assert!(requested_adapter(Some(nothing)).unwrap_err().contains("nothing to train"));
    }

    #[test]
    fn a_rank_above_a_small_models_width_is_taken_as_far_as_it_costs_little() {
        for (rank, hidden_size, greatest) in
            [(64, 64, None), (128, 64, None), (512, 16, None), (513, 16, Some(512)), (1025, 1024, Some(1024))]
        {
            let adapter = requested_adapter(Some(LoraConfig { rank, ..CONFIG }), hidden_size);
            match greatest {
                None => assert_eq!(adapter.unwrap().unwrap().rank, rank),
                Some(greatest) => {
                    let error = adapter.unwrap_err();
                    assert!(error.contains(&format!("rank is {rank}, but must be at most {greatest} ")), "{error}");
                }
            }
        }
    }
}
