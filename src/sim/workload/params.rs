//! The `key=value` list behind a workload's name.

use crate::ids::Ns;
use crate::sim::units;

/// What was given, and what was asked for.
pub struct Params {
    workload: String,
    keys: &'static str,
    given: Vec<(String, String)>,
    used: Vec<&'static str>,
}

impl Params {
    /// Splits `text`; `keys` is shown in errors.
    pub fn new(workload: &str, text: &str, keys: &'static str) -> Result<Self, String> {
        let mut given = Vec::new();
        for pair in text.split(',').filter(|p| !p.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("workload {workload}: '{pair}' is no KEY=VALUE; it takes {keys}"))?;
            given.push((key.to_owned(), value.to_owned()));
        }
        Ok(Params { workload: workload.to_owned(), keys, given, used: Vec::new() })
    }

    fn value(&mut self, key: &'static str) -> Option<String> {
        self.used.push(key);
        self.given.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.clone())
    }

    fn wrong(&self, key: &str, value: &str, want: &str) -> String {
        format!("workload {}: {key}={value} is not {want}", self.workload)
    }

    /// A count from 0 to 100,000.
    pub fn count(&mut self, key: &'static str, default: usize) -> Result<usize, String> {
        let Some(text) = self.value(key) else { return Ok(default) };
        let n = text.parse().ok().filter(|n| *n <= 100_000);
        n.ok_or_else(|| self.wrong(key, &text, "a whole number from 0 to 100000"))
    }

    /// A time, ns.
    pub fn time(&mut self, key: &'static str, default: Ns) -> Result<Ns, String> {
        let Some(text) = self.value(key) else { return Ok(default) };
        units::time(&text).ok_or_else(|| self.wrong(key, &text, "a time with its unit (500us, 20ms, 1.5s)"))
    }

    /// A share, permille.
    pub fn percent(&mut self, key: &'static str, default: u32) -> Result<u32, String> {
        let Some(text) = self.value(key) else { return Ok(default) };
        let n = text.strip_suffix('%').and_then(|t| t.parse::<u32>().ok()).filter(|n| *n <= 100);
        n.map(|n| n * 10).ok_or_else(|| self.wrong(key, &text, "a share from 0% to 100%"))
    }

    /// Everything that was given must have been asked for.
    pub fn finish(&self) -> Result<(), String> {
        match self.given.iter().find(|(k, _)| !self.used.contains(&k.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(format!("workload {} has no key '{key}': it takes {}", self.workload, self.keys)),
        }
    }
}
