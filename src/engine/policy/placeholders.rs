//! What stands in place of a value that is taken out of a text.

use std::collections::HashMap;

/// `[secret:jwt:1]`: numbers count within one subject, by kind, in order of appearance; a value that comes again
/// keeps its own.
#[derive(Default)]
pub(super) struct Placeholders<'v> {
    known: HashMap<&'v [u8], String>,
    next: HashMap<&'static str, u32>,
}

impl<'v> Placeholders<'v> {
    pub fn of(&mut self, (group, kind): (&'static str, &'static str), value: &'v [u8]) -> String {
        let next = &mut self.next;
        let name = self.known.entry(value).or_insert_with(|| {
            let n = next.entry(kind).or_default();
            *n += 1;
            format!("[{group}:{kind}:{n}]")
        });
        name.clone()
    }
}
