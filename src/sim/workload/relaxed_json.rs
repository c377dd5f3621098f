//! JSON as rt-app files have it: keys in order and repeated, commas before a closing bracket, C comments. Every value
//! knows its line, so that an error can name it.

/// How deep values may nest; a file that goes deeper is no workload.
const DEEPEST: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true`, `false`, `null`.
    Word(&'static str),
    /// A whole number.
    Int(i64),
    /// Any other number, as written.
    Number(String),
    /// Text.
    Text(String),
    /// `[...]`.
    List(Vec<Value>),
    /// `{...}`, in order, keys as often as they come.
    Object(Vec<Member>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// As written.
    pub key: String,
    /// Its line, from 1.
    pub line: usize,
    /// Behind the colon.
    pub value: Value,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

/// Reads one value and nothing after it. The error names the line.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut r = Reader { text: text.as_bytes(), at: 0, line: 1 };
    let value = r.value(0)?;
    r.skip()?;
    if r.at < r.text.len() { Err(r.wrong("something follows the closing brace")) } else { Ok(value) }
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("line {}: not JSON: {what}", self.line)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let b = self.peek()?;
        self.at += 1;
        self.line += usize::from(b == b'\n');
        Some(b)
    }

    /// White space and comments.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                Some(b) if b.is_ascii_whitespace() => {
                    self.next();
                }
                Some(b'/') => match self.text.get(self.at + 1) {
                    Some(b'/') => while self.next().is_some_and(|b| b != b'\n') {},
                    Some(b'*') => {
                        let from = self.line;
                        self.at += 2;
                        while !self.text[self.at..].starts_with(b"*/") {
                            if self.next().is_none() {
                                return Err(format!("line {from}: a comment without an end"));
                            }
                        }
                        self.at += 2;
                    }
                    _ => return Err(self.wrong("a lone /")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.skip()?;
        if depth > DEEPEST {
            return Err(self.wrong("nested too deeply"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text().map(Value::Text),
            Some(b'-' | b'0'..=b'9') => Ok(self.number()),
            Some(b) if b.is_ascii_alphabetic() => self.word(),
            Some(b) => Err(self.wrong(&format!("'{}' where a value should be", b.escape_ascii()))),
            None => Err(self.wrong("the end where a value should be")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.next();
        let mut members = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                Some(b'}') => {
                    self.next();
                    return Ok(Value::Object(members));
                }
                Some(b'"') => {}
                _ => return Err(self.wrong("a key in quotes or } should be here")),
            }
            let line = self.line;
            let key = self.text()?;
            self.skip()?;
            if self.next() != Some(b':') {
                return Err(self.wrong(&format!("no colon behind the key \"{}\"", key.escape_default())));
            }
            let value = self.value(depth + 1)?;
            members.push(Member { key, line, value });
            self.comma(b'}')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        self.next();
        let mut values = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(b']') {
                self.next();
                return Ok(Value::List(values));
            }
            values.push(self.value(depth + 1)?);
            self.comma(b']')?;
        }
    }

    /// A comma, or the closing bracket ahead.
    fn comma(&mut self, close: u8) -> Result<(), String> {
        self.skip()?;
        match self.peek() {
            Some(b',') => {
                self.next();
                Ok(())
            }
            Some(b) if b == close => Ok(()),
            _ => Err(self.wrong(&format!("a comma or {} should be here", close as char))),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let from = self.line;
        self.next();
        let mut bytes = Vec::new();
        loop {
            match self.next() {
                None | Some(b'\n') => return Err(format!("line {from}: not JSON: a text without its closing quote")),
                Some(b'"') => break,
                Some(b'\\') => match self.next() {
                    Some(b'n') => bytes.push(b'\n'),
                    Some(b't') => bytes.push(b'\t'),
                    Some(b @ (b'"' | b'\\' | b'/')) => bytes.push(b),
                    _ => return Err(self.wrong("an escape other than \\\" \\\\ \\/ \\n \\t")),
                },
                Some(b) => bytes.push(b),
            }
        }
        String::from_utf8(bytes).map_err(|_| self.wrong("a text that is not UTF-8"))
    }

    fn number(&mut self) -> Value {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')) {
            self.next();
        }
        let text = String::from_utf8_lossy(&self.text[from..self.at]).into_owned();
        text.parse().map(Value::Int).unwrap_or(Value::Number(text))
    }

    fn word(&mut self) -> Result<Value, String> {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric()) {
            self.next();
        }
        let word = self.text[from..self.at].to_ascii_lowercase();
        match word.as_slice() {
            b"true" => Ok(Value::Word("true")),
            b"false" => Ok(Value::Word("false")),
            b"null" => Ok(Value::Word("null")),
            _ => Err(self.wrong(&format!("the bare word '{}'", word.escape_ascii()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_in_order_and_repeat() {
        let text = "{ \"run\": 1, /* c */ \"sleep\": 2,\n \"run\": 3, // d\n \"cpus\": [0, 1,], }";
        let Ok(Value::Object(members)) = parse(text) else { panic!("{:?}", parse(text)) };
        let seen: Vec<(&str, usize)> = members.iter().map(|m| (m.key.as_str(), m.line)).collect();
        assert_eq!(seen, [("run", 1), ("sleep", 1), ("run", 2), ("cpus", 3)]);
        assert_eq!(members[3].value, Value::List(vec![Value::Int(0), Value::Int(1)]));
    }

    #[test]
    fn broken_text_names_its_line() {
        for (text, line) in
            [("{\n\"a\" 1}", 2), ("{\"a\":1}\n\nx", 3), ("[1 2]", 1), ("{\"a\n\":1}", 1), ("/* x", 1), ("", 1)]
        {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}:")), "{text:?}: {error}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
