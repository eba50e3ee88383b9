//! Parts of `[trainer]`: which keys of the flat table each has.

use super::table::TrainerTable;

/// A part of `[trainer]`, taken out of the flat table, and put back into it to be shown.
pub(crate) trait OptionsPart {
    /// Its keys, and those of the parts in it. Keys of a table that is not wholly its own stand with dots.
    fn keys() -> Vec<&'static str>
    where
        Self: Sized;

    fn take(table: &TrainerTable) -> Self
    where
        Self: Sized;

    fn put(&self, table: &mut TrainerTable);
}

/// Declares a part: the parts that it has `with` it, the keys that it has, and those `in` a table that others share.
macro_rules! part {
    (
        $(#[$about:meta])*
        $name:ident $(with $part:ident: $kind_of_part:ty,)* has { $($key:ident: $kind:ty,)* }
        $(in $table:ident { $($below:ident: $kind_below:ty,)* })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                #[doc = concat!("The keys of [`", stringify!($kind_of_part), "`].")]
                pub $part: $kind_of_part,
            )*
            $(
                #[doc = concat!("`[trainer] ", stringify!($key), "`")]
                pub $key: $kind,
            )*
            $($(
                #[doc = concat!("`[trainer] ", stringify!($table), ".", stringify!($below), "`")]
                pub $below: $kind_below,
            )*)?
        }

        impl $crate::options::flat::part::OptionsPart for $name {
            fn keys() -> Vec<&'static str> {
                let own: &[&'static str] = &[
                    $(stringify!($key),)*
                    $($(concat!(stringify!($table), ".", stringify!($below)),)*)?
                ];
                own.iter().copied()$(.chain(<$kind_of_part>::keys()))*.collect()
            }

            fn take(table: &$crate::options::flat::table::TrainerTable) -> Self {
                Self {
                    $($part: <$kind_of_part>::take(table),)*
                    $($key: Clone::clone(&table.$key),)*
                    $($($below: Clone::clone(&table.$table.$below),)*)?
                }
            }

            fn put(&self, table: &mut $crate::options::flat::table::TrainerTable) {
                $(self.$part.put(table);)*
                $(Clone::clone_from(&mut table.$key, &self.$key);)*
                $($(Clone::clone_from(&mut table.$table.$below, &self.$below);)*)?
            }
        }
    };
}

pub(crate) use part;
