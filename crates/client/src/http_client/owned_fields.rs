//! Fields of a message, or variables of a request, which are kept longer than their source.

use pinion_http::field::{Field, Fields};

/// The fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedFields {
    text: Vec<u8>,
    /// The end of each name and of each value in the text.
    ends: Vec<(u32, u32)>,
}

impl OwnedFields {
    /// Creates an empty list with room for so many lines and bytes.
    #[must_use]
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), ends: Vec::with_capacity(lines) }
    }

    /// Adds a field line.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len() as u32;
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len() as u32));
    }

    /// Adds a field line whose value `write_value` appends to the text.
    pub fn push_with(&mut self, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len() as u32;
        write_value(&mut self.text);
        self.ends.push((name_end, self.text.len() as u32));
    }

    /// Returns the number of lines, and of the bytes of their names and values.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.ends.len(), self.text.len())
    }

    /// Returns the bytes of memory that the fields take.
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<(u32, u32)>()
    }

    /// Returns all field lines in their order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (name_end, end))| {
            let part = |from: u32, to: u32| self.text.get(from as usize..to as usize);
            Field {
                name: part(start, *name_end).unwrap_or_default(),
                value: part(*name_end, *end).unwrap_or_default(),
            }
        })
    }

    /// Returns the value of the first line of a name, compared without case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let is_match = |field: &Field<'_>| field.name.eq_ignore_ascii_case(name.as_bytes());
        self.iter().find(is_match).map(|field| field.value)
    }

    /// Returns all field lines, each with its name, a colon, its value and a line feed. Neither
    /// part has a line feed in it.
    #[must_use]
    pub fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.text.len() + 2 * self.ends.len());
        for field in self.iter() {
            for part in [field.name, b":", field.value, b"\n"] {
                lines.extend_from_slice(part);
            }
        }
        lines
    }

    /// Returns the names and values of [`Self::lines`].
    pub fn parts_of(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at(colon);
            Some((name, value.get(1..)?))
        })
    }

    /// Returns whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all lines of these names.
    pub fn remove(&mut self, names: &[&str]) {
        let is_removed =
            |name: &[u8]| names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()));
        let mut kept = Self::default();
        for field in self.iter().filter(|field| !is_removed(field.name)) {
            kept.push(field.name, field.value);
        }
        *self = kept;
    }
}

impl From<Fields<'_>> for OwnedFields {
    fn from(fields: Fields<'_>) -> Self {
        let bytes = fields.iter().map(|field| field.name.len() + field.value.len()).sum();
        let mut owned = Self::with_capacity(fields.len(), bytes);
        fields.iter().for_each(|field| owned.push(field.name, field.value));
        owned
    }
}
