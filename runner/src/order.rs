//! Which program is to be started, and how.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::Command;

/// Which program is to be started, with what, and where. Its environment is the starting process's, with changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// An absolute path.
    pub program: PathBuf,
    /// What follows the program's own name.
    pub arguments: Vec<OsString>,
    /// Variables that are set, or removed where there is no value.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// The starting process's if `None`.
    pub directory: Option<PathBuf>,
}

/// What a field of a written order is. A field is this byte, its text and a zero byte, which no text can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Program,
    Argument,
    /// A name, an equals sign and a value.
    Set,
    Remove,
    Directory,
}

impl Field {
    const ALL: [Self; 5] = [Self::Program, Self::Argument, Self::Set, Self::Remove, Self::Directory];

    fn mark(self) -> u8 {
        match self {
            Self::Program => b'p',
            Self::Argument => b'a',
            Self::Set => b's',
            Self::Remove => b'r',
            Self::Directory => b'd',
        }
    }

    fn marked(mark: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.mark() == mark)
    }
}

impl Order {
    /// What starts the program, but for its standard streams.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// The order as one text.
    ///
    /// # Errors
    ///
    /// Fails if a word holds a zero byte: no program can be given one.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (field, text) in self.fields() {
            if text.as_bytes().contains(&0) {
                return Err(io::Error::new(ErrorKind::InvalidInput, "nul byte found in provided data"));
            }
            bytes.push(field.mark());
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        Ok(bytes)
    }

    fn fields(&self) -> Vec<(Field, OsString)> {
        let mut fields = vec![(Field::Program, self.program.clone().into_os_string())];
        fields.extend(self.arguments.iter().map(|argument| (Field::Argument, argument.clone())));
        fields.extend(self.environment.iter().map(|(name, value)| match value {
            Some(value) => (Field::Set, [name, OsStr::new("="), value].into_iter().collect()),
            None => (Field::Remove, name.clone()),
        }));
        fields.extend(self.directory.iter().map(|directory| (Field::Directory, directory.clone().into_os_string())));
        fields
    }

    /// Reads what [`Order::to_bytes`] gave; `None` if it is something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut order = Self::default();
        for field in bytes.strip_suffix(&[0])?.split(|byte| *byte == 0) {
            let (mark, text) = field.split_first()?;
            let own = |text: &[u8]| OsString::from_vec(text.to_vec());
            match Field::marked(*mark)? {
                Field::Program => order.program = own(text).into(),
                Field::Argument => order.arguments.push(own(text)),
                Field::Set => {
                    let equals = text.iter().position(|byte| *byte == b'=')?;
                    order.environment.push((own(&text[..equals]), Some(own(&text[equals + 1..]))));
                }
                Field::Remove => order.environment.push((own(text), None)),
                Field::Directory => order.directory = Some(own(text).into()),
            }
        }
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = OsString> {
        prop::collection::vec(1..=u8::MAX, 0..9).prop_map(OsString::from_vec)
    }

    proptest! {
        #[test]
        fn an_order_of_any_bytes_is_read_as_it_was_written(
            (program, directory) in (text(), prop::option::of(text())),
            arguments in prop::collection::vec(text(), 0..5),
            environment in prop::collection::vec(("[A-Z_]{1,5}", prop::option::of(text())), 0..5),
        ) {
            let environment = environment.into_iter().map(|(name, value)| (name.into(), value)).collect();
            let order = Order { program: program.into(), arguments, environment, directory: directory.map(Into::into) };
            prop_assert_eq!(Order::from_bytes(&order.to_bytes().unwrap()), Some(order));
        }
    }

    #[test]
    fn a_word_with_a_zero_byte_is_refused_as_the_system_does() {
        let order = Order { arguments: vec!["a\0b".into()], program: "/bin/sh".into(), ..Order::default() };
        let refused = order.to_bytes().unwrap_err();
        assert_eq!(refused.to_string(), order.command().spawn().unwrap_err().to_string());
    }

    #[test]
    fn what_is_no_order_is_not_read() {
        for wrong in [&b""[..], b"p/bin/sh", b"\0", b"x\0", b"p/bin/sh\0sNAME\0"] {
            assert_eq!(Order::from_bytes(wrong), None);
        }
    }
}
