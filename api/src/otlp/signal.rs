/// Which of OpenTelemetry's signals an export is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans.
    Traces,
    /// Log records, of which events with the messages of model calls are kept.
    Logs,
}

impl Signal {
    /// What its items are called.
    pub(crate) fn item(self) -> &'static str {
        match self {
            Self::Traces => "span",
            Self::Logs => "log record",
        }
    }

    /// The message that exports it.
    pub(super) fn request(self) -> &'static str {
        match self {
            Self::Traces => "ExportTraceServiceRequest",
            Self::Logs => "ExportLogsServiceRequest",
        }
    }

    /// Where the answer in JSON says how many items were left out.
    pub(crate) fn rejected_key(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Logs => "rejectedLogRecords",
        }
    }
}
