//! `docs/configuration.md`: every key, its default and what it does, read from the structs that are the schema.

use serde_json::Value;
use sluicegate::runtime::config::Config;
use sluicegate::runtime::schema::docs::{Field, Source, inner};
use std::fmt::Write as _;

fn write(source: &Source, of: &str, path: &str, defaults: Option<&Value>, page: &mut String) {
    let fields = source.structs.get(of).map(Vec::as_slice).unwrap_or_default();
    let nested = |field: &Field| source.structs.get(inner(&field.kind)).is_some_and(|own| !own.is_empty());
    let mut rows = String::new();
    for field in fields.iter().filter(|field| !nested(field)) {
        assert!(!field.doc.is_empty(), "{of}::{} is a key without a word of what it does", field.name);
        let kind = inner(&field.kind);
        let default = defaults.and_then(|d| d.get(&field.name)).filter(|d| !d.is_null());
        let default = default.map_or("–".to_owned(), |d| format!("`{d}`"));
        let values = source.enums.get(kind).map(|all| format!(" One of `{}`.", all.join("`, `"))).unwrap_or_default();
        let _ = writeln!(rows, "| `{}{}` | {default} | {}{values} |", path, field.name, field.doc.replace('|', "\\|"));
    }
    if !rows.is_empty() {
        let about = source.about.get(of).filter(|about| !about.is_empty());
        let title = if path.is_empty() { "Top level".to_owned() } else { format!("`{}`", path.trim_end_matches('.')) };
        let _ = writeln!(page, "\n## {title}\n");
        about.into_iter().for_each(|about| page.push_str(&format!("{about}\n\n")));
        let _ = write!(page, "| key | default | |\n|---|---|---|\n{rows}");
    }
    for field in fields.iter().filter(|field| nested(field)) {
        let kind = inner(&field.kind);
        let many = if field.kind.contains("BTreeMap<") {
            "<name>."
        } else if field.kind.contains("Vec<") {
            "[]."
        } else {
            ""
        };
        let path =
            if many == "[]." { format!("{path}{}[].", field.name) } else { format!("{path}{}.{many}", field.name) };
        let own = defaults.and_then(|d| d.get(&field.name)).filter(|_| many.is_empty());
        write(source, kind, &path, own, page);
    }
}

#[test]
fn the_configuration_reference_is_fresh() {
    let source = Source::read();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut page = String::from(
        "# Configuration\n\nMade from the structs that read it; do not edit. The file is YAML. `--config` may be given several times: the later file wins, key by key. Each key can also be set from the environment: \
         `SLUICEGATE__`, then its path in upper case with two underscores between the parts, as in `SLUICEGATE__KAFKA__GROUP=gate-2`. An \
         unknown key is an error that names its path; all problems of a file are listed at once (`sluicegate validate`). `–`: no default. The \
         options of each policy, with their bounds, stand on its [page](policies/README.md).\n",
    );
    write(&source, "Config", "", Some(&defaults), &mut page);
    let sections = defaults.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    assert!(sections.iter().all(|s| page.contains(&format!("`{s}"))), "{sections:?}");
    crate::docs::fresh("docs/configuration.md", &page);
}
