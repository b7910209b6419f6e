//! The variables of a request that is not in a batch yet, or its [scope](super::scope).

use super::request_batch::EnvironWriter;
use crate::cgi::variable_error::VariableError;

/// The variables of a request, as a batch has them.
#[derive(Clone, Debug, Default)]
pub struct Environ {
    pub(super) encoded: Vec<u8>,
    /// Bytes of all variables, as [`EnvironWriter`] counts them.
    pub(super) bytes: usize,
}

impl Environ {
    /// Makes one without variables, and with memory for so many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Environ {
        Environ { encoded: Vec::with_capacity(bytes), bytes: 0 }
    }

    /// Makes it empty. It keeps its memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.bytes = 0;
    }

    /// Appends a variable; see [`EnvironWriter::add`].
    ///
    /// # Errors
    /// Refuses what [`EnvironWriter::add`] refuses.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
        let mut writer = EnvironWriter { out: &mut self.encoded, bytes: self.bytes };
        let added = writer.add(name, value);
        self.bytes = writer.bytes;
        added
    }

    /// Appends all variables to those of a request in a batch.
    pub fn write(&self, writer: &mut EnvironWriter<'_>) {
        writer.out.extend_from_slice(&self.encoded);
        writer.bytes += self.bytes;
    }
}
