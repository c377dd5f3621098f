//! JSON that may also stand inside an HTML page.

use std::fmt::Write;

/// `text` as a JSON string with its quotes. Names are chosen by users: `<`, `>` and `&` are escaped too, so that no text
/// can end the script element around it, and everything outside ASCII, so that no separator or bidi mark survives.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(c @ (b'"' | b'\\')) => out.extend(['\\', c.into()]),
            Ok(c) if (b' '..=b'~').contains(&c) && !b"<>&".contains(&c) => out.push(c.into()),
            _ => {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push('"');
    out
}

/// A list of already written values.
pub fn list(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// ns as us with three decimals.
pub fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
