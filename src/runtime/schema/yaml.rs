//! JSON values as YAML that people read: blocks for objects and lists, quotes only where they are needed.

use serde_json::Value;

/// A document, with a line end at its end.
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                out.push_str(&format!("{pad}{}:", scalar(name)));
                below(value, depth + 1, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                write(item, depth + 1, &mut inner);
                // The first line of an item stands behind its dash.
                out.push_str(&format!("{pad}- {}", inner.trim_start()));
            }
        }
        other => out.push_str(&format!("{pad}{}\n", leaf(other))),
    }
}

fn below(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            write(value, depth, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            write(value, depth, out);
        }
        other => out.push_str(&format!(" {}\n", leaf(other))),
    }
}

fn leaf(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text as it is where it can only be read as a text, else as JSON has it, which YAML reads too.
fn scalar(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || " ./_-()`,'".contains(c));
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if first && plain && !word && !text.ends_with(' ') { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_could_be_read_otherwise_is_quoted() {
        let value = json!({
            "a": [1, "1", "on", "x: y", {"b": [], "c": {}}, ["in", "in"]], "$ref": "#/x", "d": "a plain text, no more",
            "e": "1h", "f": null, "g": "", "h": true,
        });
        let expected = "\"$ref\": \"#/x\"\na:\n  - 1\n  - \"1\"\n  - \"on\"\n  - \"x: y\"\n  - b: []\n    c: {}\n  - - in\n    - in\n\
                        d: a plain text, no more\ne: \"1h\"\nf: null\ng: \"\"\nh: true\n";
        assert_eq!(document(&value), expected);
    }
}
