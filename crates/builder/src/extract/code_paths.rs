//! The places of the code of a dynamic site, and of its content.

use std::borrow::Cow;

use pinion_archive::CodeSection;

/// The folder of the content, where code lies beside it.
const CONTENT_FOLDER: &[u8] = b"/public_html";

/// The places of code and content: whether there is code, and a folder for the content.
pub(super) struct CodePlaces {
    is_dynamic: bool,
    has_folder: bool,
}

impl CodePlaces {
    /// Returns the places, as far as the code shows them.
    pub(super) fn of(code: &CodeSection) -> CodePlaces {
        let mut places = CodePlaces { is_dynamic: !code.is_empty(), has_folder: false };
        for (path, _) in code.iter() {
            places.has_folder |= path.starts_with(b"//");
            places.take(path);
        }
        places
    }

    /// Looks at the path of a file of the content. A build would take a folder of that name at the
    /// top for all of the content.
    pub(super) fn take(&mut self, path: &[u8]) {
        let is_below = path.strip_prefix(CONTENT_FOLDER).is_some_and(|rest| rest.starts_with(b"/"));
        self.has_folder |= self.is_dynamic && is_below;
    }

    /// Returns the folder of the content, if it is not all of the folder.
    pub(super) fn folder(&self) -> Option<&'static [u8]> {
        self.has_folder.then_some(CONTENT_FOLDER)
    }

    /// Returns where a file of the content goes.
    pub(super) fn content<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match self.folder() {
            Some(folder) => [folder, path].concat().into(),
            None => path.into(),
        }
    }

    /// Returns the path for code; `None` for code that would be content there.
    pub(super) fn code<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        let Some(beside) = path.strip_prefix(b"/").filter(|rest| rest.starts_with(b"/")) else {
            return Some(self.content(path));
        };
        let rest = beside.strip_prefix(CONTENT_FOLDER);
        (!rest.is_some_and(|rest| rest.starts_with(b"/"))).then_some(beside.into())
    }
}
