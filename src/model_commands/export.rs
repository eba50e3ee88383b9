//! `fulgurite model export`: weights in the form that other programs read.

use anyhow::Result;
use fulgurite_engine::{ElementType, bytes_text};
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_training::weights::export::{self, Export, Exported};

use crate::model_commands::arguments::{ExportFormat, ModelExportArguments};

/// Writes weights, and prints where.
pub fn export(arguments: &ModelExportArguments) -> Result<()> {
    let ModelExportArguments { source, format, checkpoint, base, output, dtype } = arguments.clone();
    let elements = dtype.map(ElementType::from);
    let export = Export { source, format: format.into(), checkpoint, base, output, elements };
    let Exported { output, unrounded_numbers } = export.write(&TerminalNotices)?;
    if let Some(numbers) = unrounded_numbers {
        let (whole, half) = (bytes_text(4 * numbers), bytes_text(2 * numbers));
        output::note(format_args!(
            "the numbers are float32, as they were trained: {whole}; --dtype bf16 rounds them to {half}"
        ));
    }
    output::line(output.display());
    Ok(())
}

impl From<ExportFormat> for export::ExportFormat {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Peft => Self::Peft,
            ExportFormat::Merged => Self::Merged,
            ExportFormat::Gguf => Self::Gguf,
        }
    }
}
