//! `pins`: definitions of tools that servers list, reviewed: what waits, what it says, what changed, and a decision;
//! and every decision as lines of a file, which `check --pins` reads.
//!
//! Decisions are records of the pins topic, and every instance acts on them without a restart. The audit record is
//! written first: a decision that nobody can account for never takes effect.

use super::style::{Cell, Style, Tone, table};
use super::{Exit, Failure, Global};
use crate::engine::pins::Change;
use crate::engine::pins::record::{DecisionRecord, Key, Line, Standing, shown};
use crate::runtime::config::Need;
use crate::runtime::kafka::{SystemClock, whole};
use crate::runtime::port::Clock as _;
use crate::runtime::review::{Book, Decided, Entry, State, compared, lines, safe};
use crate::runtime::settings::Settings;
use serde_json::{Value, json};
use std::io::Write;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// What waits for a decision; with --all what was decided too
    List {
        /// Only this server's
        #[arg(long, value_name = "SERVER")]
        server: Option<String>,
        /// Approved and rejected ones too
        #[arg(long)]
        all: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// A definition as it stands, made safe to look at
    Show {
        #[command(flatten)]
        which: Which,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// What changed since the approved definition
    Diff {
        #[command(flatten)]
        which: Which,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Every record of the pins topic, one a line, for `check --pins`
    Export,
    /// Approve definitions
    Approve(Decide),
    /// Reject definitions, approved ones too
    Reject(Decide),
}

#[derive(clap::Args)]
struct Which {
    /// The server, as `pins list` shows it
    #[arg(long, value_name = "SERVER")]
    server: String,
    /// A tool's name, as `pins list` shows it
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// What the server says of how to use it
    #[arg(long)]
    instructions: bool,
    /// The beginning of a digest, at least 6 digits
    #[arg(long, value_name = "DIGEST")]
    digest: Vec<String>,
}

#[derive(clap::Args)]
struct Decide {
    #[command(flatten)]
    which: Which,
    /// Changed ones of which every class of change is among these (schema_widened,title,…)
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    class: Vec<String>,
    /// Everything of this server that waits
    #[arg(long)]
    all: bool,
    /// Why, for the audit record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who decides [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only for clients that declare just what those do that saw it; without it, for any client
    #[arg(long)]
    client: bool,
    /// Say what would be decided, and decide nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let config = global.load(Need::Kafka)?;
    crate::runtime::logs::init_logs(&config.log, Style::new(global, &std::io::stderr()).on());
    let settings = config.settings().map_err(|p| Failure::problems(&[p]))?;
    let style = Style::new(global, &std::io::stdout());
    // What cannot be meant is said before the brokers are asked.
    let classes = match &args.command {
        Command::Approve(decide) | Command::Reject(decide) => decide.classes()?,
        _ => Vec::new(),
    };
    let mut out = std::io::stdout().lock();
    let book = match &args.command {
        Command::Export => export(&settings, &mut out)?,
        _ => book(&settings)?,
    };
    match &args.command {
        Command::Export => {}
        Command::List { server, all, json } => {
            let listed = |e: &Entry| (*all || e.state.is_open()) && server.as_ref().is_none_or(|s| named(s, &e.server));
            let entries: Vec<Entry> = book.entries().into_iter().filter(listed).collect();
            match json {
                true => entries.iter().try_for_each(|e| writeln!(out, "{}", ascii(&described(e, false))))?,
                false => write!(out, "{}", listed_table(style, &entries))?,
            }
        }
        Command::Show { which, json } => {
            for entry in which.take(&book, |_| true)? {
                match json {
                    true => writeln!(out, "{}", ascii(&described(&entry, true)))?,
                    false => show(&mut out, style, &entry)?,
                }
            }
        }
        Command::Diff { which, json } => {
            let any = !which.tool.is_empty() || which.instructions || !which.digest.is_empty();
            for entry in which.take(&book, |e| any || e.state == State::Changed)? {
                difference(&mut out, style, &book, &entry, *json)?;
            }
        }
        Command::Approve(decide) => decide.run(&mut out, style, (&settings, &book), Standing::Approved, &classes)?,
        Command::Reject(decide) => decide.run(&mut out, style, (&settings, &book), Standing::Rejected, &classes)?,
    }
    out.flush()?;
    for (topic, partition, offset, error) in &book.unreadable {
        let _ =
            writeln!(std::io::stderr(), "warning: {topic}/{partition} offset {offset}: {error}; it decides nothing");
    }
    Ok(if book.unreadable.is_empty() { Exit::Fine } else { Exit::Findings })
}

fn book(settings: &Settings) -> Result<Book, Failure> {
    let mut book = Book::default();
    let (pins, sightings) = (&settings.pins, &settings.sightings);
    whole::read(settings, pins, &mut |r| book.decision(pins, r.offset, r.key, r.value))?;
    whole::read(settings, sightings, &mut |r| book.sighting(sightings, (r.partition, r.offset), r.key, r.value))?;
    Ok(book)
}

/// Writes what is decided, in order of offsets. What cannot be read takes back what stood under its key, so its line
/// says that.
fn export(settings: &Settings, out: &mut impl Write) -> Result<Book, Failure> {
    let mut book = Book::default();
    let mut written = Ok(());
    whole::read(settings, &settings.pins, &mut |r| {
        book.decision(&settings.pins, r.offset, r.key, r.value);
        let Ok(key) = Key::decode(r.key) else { return };
        let decision = r.value.and_then(|value| DecisionRecord::decode(&key, value).ok());
        let line = Line { offset: Some(r.offset), key, decision };
        if written.is_ok() {
            written = writeln!(out, "{}", line.encode());
        }
    })?;
    written?;
    Ok(book)
}

/// As it is, or as it is shown.
fn named(asked: &str, name: &[u8]) -> bool {
    asked.as_bytes() == name || asked == safe(name)
}

impl Which {
    /// The definitions that are meant.
    ///
    /// # Errors
    /// There is none, or a digest is too short to name one.
    fn take(&self, book: &Book, also: impl Fn(&Entry) -> bool) -> Result<Vec<Entry>, Failure> {
        let digests: Vec<&str> = self.digest.iter().map(|d| d.strip_prefix("sha256:").unwrap_or(d)).collect();
        if let Some(short) = digests.iter().find(|d| d.len() < 6) {
            return Err(Failure::usage(format!("--digest {short}: give at least 6 digits")));
        }
        let meant = |e: &Entry| {
            let tool = |name: &[u8]| self.tool.iter().any(|asked| named(asked, name));
            let any = self.tool.is_empty() && !self.instructions;
            let by_name = any || e.name.as_deref().map_or(self.instructions, tool);
            let hex = shown(&e.digest);
            let by_digest = digests.is_empty() || digests.iter().any(|d| hex["sha256:".len()..].starts_with(d));
            named(&self.server, &e.server) && by_name && by_digest && also(e)
        };
        let found: Vec<Entry> = book.entries().into_iter().filter(meant).collect();
        match found.is_empty() {
            false => Ok(found),
            true => Err(Failure::usage("no such definition: see `sluicegate pins list --all`, with the same --config")),
        }
    }
}

impl Decide {
    fn classes(&self) -> Result<Vec<Change>, Failure> {
        if self.reason.trim().is_empty() {
            return Err(Failure::usage("--reason: say why, the audit record keeps it"));
        }
        let which = &self.which;
        let narrow = !which.tool.is_empty() || which.instructions || !which.digest.is_empty() || !self.class.is_empty();
        if !narrow && !self.all {
            return Err(Failure::usage("name what is meant: --tool, --instructions, --digest, --class or --all"));
        }
        let known = |name: &String| {
            Change::from_name(name).filter(|c| !matches!(c, Change::Added | Change::Removed)).ok_or_else(|| {
                let names = Change::ALL.iter().filter(|c| !matches!(c, Change::Added | Change::Removed));
                let names: Vec<&str> = names.map(|c| c.name()).collect();
                Failure::usage(format!("--class {}: is none of {}", safe(name.as_bytes()), names.join(", ")))
            })
        };
        self.class.iter().map(known).collect()
    }

    /// The definitions to decide on.
    ///
    /// # Errors
    /// There is none of that name, or none of them is to be decided so.
    fn chosen(&self, book: &Book, standing: Standing, classes: &[Change]) -> Result<Vec<Entry>, Failure> {
        let (already, other) = match standing {
            Standing::Approved => (State::Approved, State::Rejected),
            Standing::Rejected => (State::Rejected, State::Approved),
        };
        // What was decided otherwise is meant only by name: a bulk decision is on what waits.
        let by_name = !self.which.tool.is_empty() || self.which.instructions || !self.which.digest.is_empty();
        let of_class = |e: &Entry| {
            classes.is_empty() || (e.state == State::Changed && e.changes.iter().all(|c| classes.contains(c)))
        };
        let meant = |e: &Entry| {
            let reconsidered = e.state == other
                && match standing {
                    Standing::Approved => !self.which.digest.is_empty(),
                    Standing::Rejected => by_name,
                };
            of_class(e) && e.state != already && (e.state.is_open() || reconsidered)
        };
        let (chosen, others): (Vec<Entry>, Vec<Entry>) =
            self.which.take(book, |_| true)?.into_iter().partition(|e| meant(e));
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let of_class: Vec<&Entry> = others.iter().filter(|e| of_class(e)).collect();
        let text = match of_class.iter().find(|e| e.state == other) {
            _ if of_class.is_empty() => {
                "none of these definitions changed in nothing but the classes of --class".into()
            }
            Some(entry) => {
                let how = match standing {
                    Standing::Approved => format!("--digest {}", shown(&entry.digest)),
                    Standing::Rejected => "--tool, --instructions or --digest".into(),
                };
                format!(
                    "{} is {} already: to have it {} all the same, name it by {how}",
                    title(entry),
                    other.name(),
                    standing.name()
                )
            }
            None => format!("nothing to do: what is meant is {} already", already.name()),
        };
        Err(Failure::usage(text))
    }

    fn run(
        &self,
        out: &mut impl Write,
        style: Style,
        (settings, book): (&Settings, &Book),
        standing: Standing,
        classes: &[Change],
    ) -> Result<(), Failure> {
        let by = self.by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
        if by.is_empty() {
            return Err(Failure::usage("--by: say who decides, there is no $USER"));
        }
        let entries = self.chosen(book, standing, classes)?;
        if standing == Standing::Approved && !self.all && self.which.digest.is_empty() {
            for pair in entries.windows(2) {
                if let [a, b] = pair
                    && (&a.server, &a.name) == (&b.server, &b.name)
                {
                    let name = a.name.as_deref().map_or_else(|| "the instructions".to_owned(), safe);
                    let text = format!(
                        "{name}: several definitions wait; look at them with `sluicegate pins show` and name one by --digest"
                    );
                    return Err(Failure::usage(text));
                }
            }
        }
        if let Some(entry) = entries.iter().find(|e| self.client && e.clients.iter().all(Option::is_none)) {
            let name = entry.name.as_deref().map_or_else(|| "the instructions".to_owned(), safe);
            let text = format!("--client: no client that saw {name} said what it is able to; decide without --client");
            return Err(Failure::usage(text));
        }
        let at = time(SystemClock::new().wall());
        let decided = Decided { by, reason: self.reason.clone(), at };
        let (mut records, mut audits) = (Vec::new(), Vec::new());
        for entry in &entries {
            for (key, record) in book.decide(entry, standing, self.client, &decided) {
                let said = if record.is_some() { standing.name() } else { "withdrawn" };
                let audit = audit(&key, said, entry, &decided);
                audits.push((key.encode(), Some(audit.to_string().into_bytes())));
                records.push((key.encode(), record.map(|record| record.encode())));
            }
        }
        let offset = match self.dry_run {
            true => None,
            false => {
                whole::write(settings, &settings.pins_audit, &audits)?;
                Some(whole::write(settings, &settings.pins, &records)?)
            }
        };
        if self.json {
            for entry in &entries {
                let mut one = described(entry, false);
                one["decision"] = json!(standing.name());
                one["offset"] = json!(offset);
                writeln!(out, "{}", ascii(&one))?;
            }
            return Ok(());
        }
        write!(out, "{}", listed_table(style, &entries))?;
        let n = super::check::count(entries.len() as u64, "definition");
        match offset {
            Some(offset) => writeln!(
                out,
                "\n{n} {}; in force where verdicts show policy.pins_offset {offset} or more",
                standing.name()
            )?,
            None => writeln!(out, "\n{n} would be {}", standing.name())?,
        }
        Ok(())
    }
}

/// Who decided what, and of which kind it was.
fn audit(key: &Key, said: &str, entry: &Entry, decided: &Decided) -> Value {
    json!({
        "v": 1,
        "decision": said,
        "server": String::from_utf8_lossy(&key.server),
        "client": key.capabilities.map_or_else(|| "*".to_owned(), |c| shown(&c)),
        "kind": kind(entry),
        "name": String::from_utf8_lossy(key.name.as_deref().unwrap_or_default()),
        "digest": shown(&key.digest),
        "was": entry.state.name(),
        "changes": changes(entry),
        "by": decided.by,
        "reason": decided.reason,
        "at": decided.at,
    })
}

fn kind(entry: &Entry) -> &'static str {
    if entry.name.is_some() { "tool" } else { "instructions" }
}

fn changes(entry: &Entry) -> Vec<&'static str> {
    entry.changes.iter().map(|c| c.name()).collect()
}

fn described(entry: &Entry, whole: bool) -> Value {
    let client = |c: &Option<[u8; 32]>| c.map_or_else(|| "*".to_owned(), |c| shown(&c));
    let mut one = json!({
        "state": entry.state.name(),
        "server": String::from_utf8_lossy(&entry.server),
        "kind": kind(entry),
        "name": entry.name.as_deref().map(String::from_utf8_lossy),
        "digest": shown(&entry.digest),
        "clients": entry.clients.iter().map(client).collect::<Vec<_>>(),
        "changes": changes(entry),
        "definition_bytes": entry.definition_bytes,
        "seen": entry.seen.as_ref().map(|s| json!({
            "topic": s.topic, "partition": s.partition, "offset": s.offset, "time": time(s.time),
        })),
        "decided": entry.decided.as_ref().map(|d| json!({"by": d.by, "reason": d.reason, "at": d.at})),
    });
    if whole {
        // Text, since a reader of JSON would drop a member that stands twice.
        one["definition"] = json!(entry.definition.as_deref().map(String::from_utf8_lossy));
    }
    one
}

/// JSON in which every character is one of ASCII: what a terminal would act on stands as its number.
fn ascii(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| "-".to_owned(), |t| t.to_string())
}

/// Fits a column.
fn short(text: String) -> String {
    const MOST: usize = 48;
    match text.chars().count() > MOST {
        true => text.chars().take(MOST - 1).chain(['…']).collect(),
        false => text,
    }
}

fn title(entry: &Entry) -> String {
    entry.name.as_deref().map_or_else(|| "(instructions)".to_owned(), safe)
}

fn tone(state: State) -> Tone {
    match state {
        State::Unpinned => Tone::Warn,
        State::Changed | State::Rejected => Tone::Bad,
        State::Approved => Tone::Good,
    }
}

fn listed_table(style: Style, entries: &[Entry]) -> String {
    if entries.is_empty() {
        return "nothing waits for a decision\n".to_owned();
    }
    let row = |e: &Entry| {
        let digest: String = shown(&e.digest).chars().skip("sha256:".len()).take(12).collect();
        let seen = e.seen.as_ref().map_or_else(|| "-".to_owned(), |s| time(s.time));
        let note = match &e.decided {
            Some(d) if !e.state.is_open() => format!("{} by {}", safe(d.at.as_bytes()), safe(d.by.as_bytes())),
            _ => changes(e).join(","),
        };
        vec![
            Cell(tone(e.state), e.state.name().to_owned()),
            short(safe(&e.server)).into(),
            short(title(e)).into(),
            Cell(Tone::Dim, digest),
            seen.into(),
            note.into(),
        ]
    };
    table(
        style,
        &["state", "server", "tool", "digest", "last seen", "changes"],
        &entries.iter().map(row).collect::<Vec<_>>(),
    )
}

fn heading(out: &mut impl Write, style: Style, entry: &Entry) -> std::io::Result<()> {
    let name = format!("{} {}", safe(&entry.server), title(entry));
    writeln!(out, "{}  {}", style.paint(Tone::Head, &name), style.paint(tone(entry.state), entry.state.name()))?;
    writeln!(out, "{}", shown(&entry.digest))?;
    if let Some(s) = &entry.seen {
        writeln!(out, "seen {} in {}/{} offset {}", time(s.time), safe(s.topic.as_bytes()), s.partition, s.offset)?;
    }
    if let Some(d) = &entry.decided {
        let [at, by, reason] = [&d.at, &d.by, &d.reason].map(|text| safe(text.as_bytes()));
        writeln!(out, "decided {at} by {by}: {reason}")?;
    }
    if !entry.changes.is_empty() {
        writeln!(out, "changes {}", changes(entry).join(", "))?;
    }
    Ok(())
}

fn show(out: &mut impl Write, style: Style, entry: &Entry) -> Result<(), Failure> {
    heading(out, style, entry)?;
    match &entry.definition {
        Some(definition) => lines(definition).iter().try_for_each(|line| writeln!(out, "  {line}"))?,
        None => writeln!(out, "  ({} bytes: too large to be kept here)", entry.definition_bytes)?,
    }
    writeln!(out)?;
    Ok(())
}

fn difference(out: &mut impl Write, style: Style, book: &Book, entry: &Entry, json: bool) -> Result<(), Failure> {
    let old = book.approved(entry);
    let texts = old.and_then(|pin| pin.definition.as_deref()).zip(entry.definition.as_deref());
    let marked = texts.map(|(old, new)| compared(&lines(old), &lines(new)));
    if json {
        let mut one = described(entry, false);
        one["approved"] = json!(old.map(|pin| shown(&pin.digest)));
        let marked = marked.flatten().map(|all| all.iter().map(|(mark, l)| format!("{mark}{l}")).collect::<Vec<_>>());
        one["lines"] = json!(marked);
        writeln!(out, "{}", ascii(&one))?;
        return Ok(());
    }
    heading(out, style, entry)?;
    match (old, marked) {
        (None, _) => writeln!(out, "  nothing else of that name is approved: see `sluicegate pins show`")?,
        (Some(pin), None) => writeln!(out, "  the text of {} or of this one is not at hand", shown(&pin.digest))?,
        (Some(_), Some(None)) => writeln!(out, "  too long to compare: see `sluicegate pins show`")?,
        (Some(pin), Some(Some(all))) => {
            writeln!(out, "since {}", shown(&pin.digest))?;
            for (mark, line) in all {
                let tone = match mark {
                    '-' => Tone::Bad,
                    '+' => Tone::Good,
                    _ => Tone::Dim,
                };
                writeln!(out, "{}", style.paint(tone, &format!("{mark} {line}")))?;
            }
        }
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::digest::sha256;

    /// A book in which one definition of a tool was decided so.
    fn decided(standing: Standing) -> Book {
        let definition = br#"{"name":"search"}"#;
        let key = Key {
            server: b"docs".to_vec(),
            capabilities: None,
            name: Some(b"search".to_vec()),
            digest: sha256(definition),
        };
        let record = DecisionRecord::new(key.clone(), standing, Some(definition.as_slice().into()));
        let mut book = Book::default();
        book.decision("pins", 0, &key.encode(), Some(&record.encode()));
        book
    }

    fn said(words: &str, book: &Book, standing: Standing) -> Result<usize, String> {
        let words = format!("sluicegate pins {words} --reason read --by ada");
        let cli = <super::super::Cli as clap::Parser>::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
        let super::super::Command::Pins(Args { command: Command::Approve(decide) | Command::Reject(decide) }) =
            cli.command
        else {
            return Err("another command".into());
        };
        let classes = decide.classes().map_err(|_| "classes".to_owned())?;
        match decide.chosen(book, standing, &classes) {
            Ok(chosen) => Ok(chosen.len()),
            Err(Failure::Said(_, text)) => Err(text),
            Err(Failure::Output(e)) => Err(e.to_string()),
        }
    }

    /// Somebody approved a tool again that was rejected, and was told that there is none.
    #[test]
    fn what_is_decided_already_is_not_said_to_be_missing() {
        use Standing::{Approved, Rejected};
        let digest = shown(&sha256(br#"{"name":"search"}"#));
        for (words, was, standing, part) in [
            ("approve --server docs --tool search", Rejected, Approved, format!("name it by --digest {digest}")),
            ("approve --server docs --all", Rejected, Approved, format!("name it by --digest {digest}")),
            ("reject --server docs --all", Approved, Rejected, "name it by --tool".to_owned()),
            ("approve --server docs --tool search", Approved, Approved, "is approved already".to_owned()),
            ("reject --server docs --tool search", Rejected, Rejected, "is rejected already".to_owned()),
            ("approve --server docs --class title", Approved, Approved, "classes of --class".to_owned()),
            ("approve --server docs --tool other", Approved, Approved, "no such definition".to_owned()),
        ] {
            let error = said(words, &decided(was), standing).expect_err(words);
            assert!(error.contains(&part), "{words}: {error}");
        }
        let by_digest = format!("approve --server docs --digest {digest}");
        assert_eq!(said(&by_digest, &decided(Rejected), Approved), Ok(1));
        assert_eq!(said("reject --server docs --tool search", &decided(Approved), Rejected), Ok(1));
    }
}
