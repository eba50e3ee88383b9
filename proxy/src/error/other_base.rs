use fulgurite_types::WeightsId;

/// An adapter is over other whole weights than those that a server's model was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the adapter is over the whole weights {wanted}, and this server's model was started with {has} (help: start the server \
     with the model that the adapter was trained on)"
)]
pub(crate) struct OtherBase {
    /// The whole weights that the adapter is over.
    pub(crate) wanted: WeightsId,
    /// Those of the server's model.
    pub(crate) has: WeightsId,
}
