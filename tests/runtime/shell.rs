//! Commands that pages name, held against the definition by which the program itself parses its arguments.

use sluicegate::runtime::cli;

/// One command of a page, without the program's name.
pub struct Found {
    /// As the page has it.
    pub line: String,
    pub words: Vec<String>,
    /// In a block of code; else within a sentence.
    pub fenced: bool,
    /// Run in a pod of the service, with its files and as its principal.
    pub in_a_pod: bool,
}

impl Found {
    pub fn has(&self, option: &str) -> bool {
        self.words.iter().any(|w| w == option || w.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
    }
    /// Whether it begins so, whatever options stand before.
    pub fn is(&self, names: &[&str]) -> bool {
        let mut rest = self.words.as_slice();
        while let [option, _, behind @ ..] = rest
            && option == "--config"
        {
            rest = behind;
        }
        names.iter().enumerate().all(|(n, name)| rest.get(n).is_some_and(|word| word == name))
    }
    /// A command that does something else without the service's configuration.
    pub fn needs_config(&self) -> bool {
        ["run", "validate", "topics", "pins"].iter().any(|name| self.is(&[name]))
            || (self.is(&["policies"]) && self.has("--effective"))
    }
    /// A name in a sentence, such as `pins approve` or `check --pins`: no line to copy.
    fn is_a_name(&self) -> bool {
        let mut at = cli::command();
        let mut rest = self.words.iter();
        for word in rest.by_ref() {
            if let Some(inner) = at.find_subcommand(word) {
                at = inner.clone();
                continue;
            }
            let long = word.strip_prefix("--");
            let known = |c: &clap::Command| c.get_arguments().any(|a| a.get_long().is_some() && a.get_long() == long);
            if !known(&at) && !known(&cli::command()) {
                return false;
            }
            break;
        }
        rest.next().is_none()
    }
    /// Why the program would not take it.
    pub fn refused(&self) -> Option<String> {
        let words = std::iter::once("sluicegate").chain(self.words.iter().map(String::as_str));
        let error = cli::command().try_get_matches_from(words).err()?;
        let name = !self.fenced && self.is_a_name();
        (!name && error.exit_code() != 0).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
    }
}

/// The words of a line, up to where a shell ends the command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | ';' | '&' | '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What stands behind the program's name, and whether it is run in a pod.
fn behind(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_start().trim_start_matches("$ ");
    if let Some((_, rest)) = line.split_once(" -- sluicegate ") {
        return Some((rest, line.starts_with("kubectl ")));
    }
    let rest = line.strip_prefix("sluicegate ").or_else(|| line.strip_prefix("cargo run --release -- "));
    let image = || line.strip_prefix("docker run ")?.split_once(" sluicegate:local ").map(|(_, rest)| rest);
    rest.or_else(image).map(|rest| (rest, false))
}

/// The commands of a Markdown page, in blocks of code and in sentences.
pub fn commands(page: &str) -> Vec<Found> {
    let page = page.replace("\\\n", " ");
    let names: Vec<String> = cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let (mut found, mut fenced) = (Vec::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let within: Vec<&str> = if fenced { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
        for text in within {
            let bare = || names.iter().any(|name| text.starts_with(&format!("{name} "))).then_some((text, false));
            let Some((rest, in_a_pod)) = behind(text).or_else(|| if fenced { None } else { bare() }) else { continue };
            found.push(Found { line: text.trim().to_owned(), words: words(rest), fenced, in_a_pod });
        }
    }
    found
}
