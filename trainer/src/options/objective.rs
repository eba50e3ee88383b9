//! The objectives, each with its own keys.

use super::flat::part::OptionsPart;
use super::flat::table::TrainerTable;
use super::keys::objective_name::ObjectiveName;
use super::objectives::dpo::DpoOptions;
use super::objectives::grpo::GrpoOptions;
use super::objectives::ipo::IpoOptions;
use super::objectives::kto::KtoOptions;
use super::objectives::off_policy_distillation::OffPolicyDistillationOptions;
use super::objectives::on_policy_distillation::OnPolicyDistillationOptions;
use super::objectives::orpo::OrpoOptions;
use super::objectives::reward_model::RewardModelOptions;
use super::objectives::sft::SftOptions;
use super::objectives::simpo::SimpoOptions;
use super::objectives::variant::Variant;
use super::shared::common::CommonOptions;

/// Declares the objectives, by the names that a config has for them.
macro_rules! objectives {
    ($($name:ident($options:ident),)*) => {
        /// What a run learns by, with the keys that this objective has.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ObjectiveOptions {
            $(
                #[doc = concat!("[`ObjectiveName::", stringify!($name), "`]")]
                $name(Box<$options>),
            )*
        }

        impl ObjectiveOptions {
            pub(super) fn take(name: ObjectiveName, table: &TrainerTable) -> Self {
                match name {
                    $(ObjectiveName::$name => Self::$name(Box::new($options::take(table))),)*
                }
            }

            /// Which one it is.
            pub fn name(&self) -> ObjectiveName {
                match self {
                    $(Self::$name(_) => ObjectiveName::$name,)*
                }
            }

            pub(super) fn as_dyn(&self) -> &dyn Variant {
                match self {
                    $(Self::$name(options) => options.as_ref(),)*
                }
            }

            pub(super) fn as_dyn_mut(&mut self) -> &mut dyn Variant {
                match self {
                    $(Self::$name(options) => options.as_mut(),)*
                }
            }
        }

        impl ObjectiveName {
            /// The keys that it has of its own.
            fn own_keys(self) -> Vec<&'static str> {
                match self {
                    $(Self::$name => $options::keys(),)*
                }
            }
        }
    };
}

objectives! {
    Grpo(GrpoOptions),
    Sft(SftOptions),
    OnPolicyDistillation(OnPolicyDistillationOptions),
    OffPolicyDistillation(OffPolicyDistillationOptions),
    Dpo(DpoOptions),
    Ipo(IpoOptions),
    Orpo(OrpoOptions),
    Simpo(SimpoOptions),
    Kto(KtoOptions),
    RewardModel(RewardModelOptions),
}

impl ObjectiveName {
    /// Whether it has a key. Of a table some keys of which it has, it has the table.
    pub(super) fn has(self, key: &str) -> bool {
        let is_below = |key: &str, table: &str| {
            key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let keys = CommonOptions::keys().into_iter().chain(self.own_keys());
        keys.chain(["objective"]).any(|known| is_below(key, known) || is_below(known, key))
    }
}
