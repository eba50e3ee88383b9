//! What this program is: its version, the commit that it was built from, its target and features.

macro_rules! with_features {
    ($features:literal) => {
        concat!(
            env!("CARGO_PKG_VERSION"),
            "\ncommit:   ",
            env!("FULGURITE_COMMIT"),
            "\ntarget:   ",
            env!("FULGURITE_TARGET"),
            "\nfeatures: ",
            $features
        )
    };
}

/// What `--version` prints behind the name; `-V` prints the version alone.
pub const LONG_VERSION: &str = if fulgurite_cuda::BUILT_IN { with_features!("cuda") } else { with_features!("none") };
