/// Follows one JSON value to its end, byte by byte. It asks only where things stand, and not whether all of it is JSON;
/// but text that stands where no text can, as behind a quote that should have been escaped, it takes for wrong at once.
#[derive(Debug, Default)]
pub(crate) struct ValueScan {
    /// How many brackets are open.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last byte that is no white space and stands in no string; a string counts as its quote.
    last: u8,
    /// The value has ended, or is none.
    has_ended: bool,
}

/// Tells where a value of JSON may end, of marks that end it or stand in its strings.
#[derive(Debug)]
pub(crate) struct ValueEnd {
    scan: ValueScan,
    /// Up to here the value has been followed.
    at: usize,
    has_started: bool,
    has_been_outside: bool,
}

impl ValueEnd {
    /// Of a value that begins at `start` of a text, or behind white space there.
    pub(crate) fn new(start: usize) -> Self {
        Self { scan: ValueScan::default(), at: start, has_started: false, has_been_outside: false }
    }

    /// Whether a mark at `end` of the text is the first that stands in no string of the value. If that does not end the
    /// value, it is no JSON, and no other mark need be asked.
    pub(crate) fn is_first_outside(&mut self, text: &str, end: usize) -> bool {
        if self.has_been_outside {
            return false;
        }
        for byte in &text.as_bytes()[self.at..end] {
            self.has_started |= !byte.is_ascii_whitespace();
            if self.has_started {
                self.scan.step(*byte);
            }
        }
        self.at = end;
        self.has_been_outside = !self.scan.is_in_string();
        self.has_been_outside
    }
}

/// Where a byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// In the value.
    Inside,
    /// It is the value's last.
    Last,
    /// Behind the value.
    Outside,
    /// This is no value.
    Wrong,
}

impl ValueScan {
    /// Whether what follows is text of a string, in which anything may stand.
    pub(crate) fn is_in_string(&self) -> bool {
        self.in_string && !self.has_ended
    }

    pub(crate) fn step(&mut self, byte: u8) -> Step {
        if self.has_ended {
            return Step::Outside;
        }
        let step = self.next(byte);
        self.has_ended = step != Step::Inside;
        step
    }

    fn next(&mut self, byte: u8) -> Step {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return if self.in_string || self.depth > 0 { Step::Inside } else { Step::Last };
        }
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return if self.depth == 0 { Step::Outside } else { Step::Inside };
        }
        let follows_string = self.last == b'"' && !matches!(byte, b',' | b':' | b'}' | b']');
        let begins_string = byte == b'"' && !matches!(self.last, 0 | b'{' | b'[' | b',' | b':');
        if follows_string || begins_string {
            return Step::Wrong;
        }
        self.last = byte;
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth == 1 => return Step::Last,
            b'}' | b']' if self.depth > 1 => self.depth -= 1,
            b'}' | b']' | b',' if self.depth == 0 => return Step::Outside,
            _ => {}
        }
        Step::Inside
    }
}
