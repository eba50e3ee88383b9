//! What a tensor of a model directory is called in GGUF.

/// GGUF's name of a tensor that Hugging Face's files call `name`, if it has one.
pub(super) fn gguf_name(name: &str) -> Option<String> {
    let (rest, kind) = name.rsplit_once('.')?;
    let own = match rest {
        "model.embed_tokens" => "token_embd".to_owned(),
        "model.norm" => "output_norm".to_owned(),
        "lm_head" => "output".to_owned(),
        _ => {
            let (layer, part) = rest.strip_prefix("model.layers.")?.split_once('.')?;
            format!("blk.{layer}.{}", layer_part(part)?)
        }
    };
    Some(format!("{own}.{kind}"))
}

fn layer_part(name: &str) -> Option<&'static str> {
    Some(match name {
        "input_layernorm" => "attn_norm",
        "post_attention_layernorm" => "ffn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::architecture::Architecture;
    use crate::model::layout::Layout;
    use crate::test_models::tiny_config;

    #[test]
    fn every_tensor_of_every_kind_of_model_has_a_name_of_its_own() {
        for architecture in Architecture::ALL {
            let config = crate::ModelConfig { architecture, tie_word_embeddings: false, ..tiny_config() };
            let tensors = Layout::new(&config).tensors;
            let mut names: Vec<_> = tensors.iter().map(|tensor| gguf_name(&tensor.name).unwrap()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), tensors.len());
        }
        assert_eq!(gguf_name("model.layers.11.self_attn.q_proj.bias").as_deref(), Some("blk.11.attn_q.bias"));
        assert_eq!(gguf_name("model.layers.0.mlp.experts.weight"), None);
    }
}
