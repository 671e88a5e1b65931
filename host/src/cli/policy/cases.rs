//! Case tables: what a policy is expected to answer, written down beside it.

pub mod expect;
mod locate;
pub mod trials;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use self::expect::Expected;
use self::locate::{Located, Step, written};
use crate::cli::values;
use crate::model::DeadLetter;
use crate::model::json::parse_entry;
use crate::model::names::nearest;
use crate::model::settings::{from_toml, toml_problem};
use crate::model::time::{NO_DURATION, read_duration};
use crate::model::timeline::AttemptEnd;

const CASE_KEYS: [&str; 6] = ["name", "entry", "settings", "now", "expect", "step"];
const STEP_KEYS: [&str; 5] = ["attempt", "after", "generation", "retry", "expect"];

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// The line that it starts on.
    pub line: usize,
    /// The dead letter at its beginning.
    pub entry: DeadLetter,
    /// What the policy is configured with; `None` leaves what the command line gives.
    pub settings: Option<Value>,
    /// The time at its beginning.
    pub now: Timestamp,
    /// What happens, in order; one step when the case is no timeline.
    pub steps: Vec<CaseStep>,
}

/// What happens, and what is expected then.
#[derive(Debug, Clone, Default)]
pub struct CaseStep {
    /// The line of its expectations.
    pub line: usize,
    /// How the attempt of the step before ended.
    pub attempt: Option<AttemptEnd>,
    /// Then so much time passes.
    pub after: Duration,
    /// Then this build is deployed.
    pub generation: Option<String>,
    /// Then an operator asks for a retry.
    pub retry: bool,
    /// What the policy, asked then, should answer; empty asks all the same.
    pub expected: Vec<Expected>,
}

/// Why a file is no case table.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// It is no TOML.
    #[error("case table {file} is no valid TOML: {problem}")]
    Syntax {
        /// Which file.
        file: String,
        /// What is wrong and where.
        problem: String,
    },
    /// Something in it is not what a case holds.
    #[error("case table {file}, line {line}: {key} {problem}")]
    Value {
        /// Which file.
        file: String,
        /// On which line.
        line: usize,
        /// At which key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What is wrong, and the way to it.
#[derive(Debug)]
pub struct Wrong {
    way: Vec<Step>,
    problem: String,
}

impl Wrong {
    fn new(problem: impl Into<String>) -> Self {
        Self { way: Vec::new(), problem: problem.into() }
    }

    /// The same, seen from outside of a key.
    fn at(self, key: &str) -> Self {
        self.within(Step::Key(key.to_owned()))
    }

    /// The same, seen from outside of an item.
    fn within(mut self, step: Step) -> Self {
        self.way.insert(0, step);
        self
    }
}

/// Reads a case table. `now` stands in where a case gives no time.
///
/// # Errors
///
/// The first thing in it that is not what a case holds, with its line and key.
pub fn read(file: &Path, text: &str, now: Timestamp) -> Result<Vec<Case>, CasesError> {
    let file = file.display().to_string();
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return Err(CasesError::Syntax { problem: toml_problem(text, &error), file }),
    };
    let located = Located::new(text);
    table_of_cases(&from_toml(toml::Value::Table(table)), now, &located).map_err(|Wrong { way, problem }| {
        CasesError::Value { file, line: located.line(&way), key: written(&way), problem }
    })
}

fn table_of_cases(table: &Value, now: Timestamp, located: &Located<'_>) -> Result<Vec<Case>, Wrong> {
    let fields = object(table)?;
    if let Some(key) = fields.keys().find(|key| key.as_str() != "case") {
        return Err(Wrong::new("is unknown: a case table holds [[case]] tables alone").at(key));
    }
    let Some(cases) = fields.get("case") else { return Ok(Vec::new()) };
    let read = |(place, found): (usize, &Value)| {
        let way = [Step::Key("case".to_owned()), Step::Item(place)];
        let line = |inner: &[Step]| located.line(&[&way, inner].concat());
        case(found, now, line).map_err(|wrong| wrong.within(Step::Item(place)).at("case"))
    };
    list(cases).map_err(|wrong| wrong.at("case"))?.iter().enumerate().map(read).collect()
}

fn case(found: &Value, default_now: Timestamp, line: impl Fn(&[Step]) -> usize) -> Result<Case, Wrong> {
    let fields = object(found)?;
    for key in fields.keys() {
        known(key, &CASE_KEYS)?;
    }
    let name = fields.get("name").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| Wrong::new("has no name"))?.to_owned();
    let now = match fields.get("now") {
        Some(value) => time(value).map_err(|problem| Wrong::new(problem).at("now"))?,
        None => default_now,
    };
    let entry = fields.get("entry").ok_or_else(|| Wrong::new("has no entry"))?;
    let entry = parse_entry(&object(entry).map(|_| entry.to_string()).map_err(|wrong| wrong.at("entry"))?, now)
        .map_err(|error| match error.field.as_str() {
            "" => Wrong::new(error.problem).at("entry"),
            field => Wrong::new(format!("{} {}", error.value, error.problem).trim()).at(field).at("entry"),
        })?;
    if let Some(settings) = fields.get("settings") {
        object(settings).map_err(|wrong| wrong.at("settings"))?;
    }
    let steps = match (fields.get("expect"), fields.get("step")) {
        (Some(expect), None) => {
            let expected = expect::read(expect).map_err(|wrong| wrong.at("expect"))?;
            vec![CaseStep { line: line(&[]), expected, ..CaseStep::default() }]
        }
        (None, Some(steps)) => timeline(steps, &line).map_err(|wrong| wrong.at("step"))?,
        (Some(_), Some(_)) => return Err(Wrong::new("has both expect and step: a timeline expects in its steps")),
        (None, None) => return Err(Wrong::new("expects nothing: give it an expect table")),
    };
    Ok(Case { name, line: line(&[]), entry, settings: fields.get("settings").cloned(), now, steps })
}

fn timeline(steps: &Value, line: &impl Fn(&[Step]) -> usize) -> Result<Vec<CaseStep>, Wrong> {
    let steps = list(steps)?;
    if !steps.iter().any(|step| step.get("expect").is_some()) {
        return Err(Wrong::new("expects nothing in any step"));
    }
    let read = |(place, found): (usize, &Value)| {
        let line = line(&[Step::Key("step".to_owned()), Step::Item(place)]);
        step(found, place, line).map_err(|wrong| wrong.within(Step::Item(place)))
    };
    steps.iter().enumerate().map(read).collect()
}

fn step(found: &Value, place: usize, line: usize) -> Result<CaseStep, Wrong> {
    let mut step = CaseStep { line, ..CaseStep::default() };
    for (key, value) in object(found)? {
        let key = known(key, &STEP_KEYS)?;
        let read = match key {
            "attempt" if place == 0 => Err("ends an attempt before there is one".to_owned()),
            "attempt" => attempt_end(value).map(|end| step.attempt = Some(end)),
            "after" => duration(value).map(|after| step.after = after),
            "generation" => match value.as_str().filter(|tag| !tag.trim().is_empty()) {
                Some(tag) => {
                    step.generation = Some(tag.to_owned());
                    Ok(())
                }
                None => Err(format!("{value} is no build tag")),
            },
            "retry" => match value.as_bool() {
                Some(retry) => {
                    step.retry = retry;
                    Ok(())
                }
                None => Err(format!("{value} is neither true nor false")),
            },
            _ => {
                step.expected = expect::read(value).map_err(|wrong| wrong.at(key))?;
                Ok(())
            }
        };
        read.map_err(|problem| Wrong::new(problem).at(key))?;
    }
    Ok(step)
}

fn attempt_end(value: &Value) -> Result<AttemptEnd, String> {
    match value.as_str() {
        Some("fails") => Ok(AttemptEnd::Fails),
        Some("dies-again") => Ok(AttemptEnd::DiesAgain),
        _ => Err(format!("{value} is neither \"fails\" nor \"dies-again\"")),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, Wrong> {
    value.as_object().ok_or_else(|| Wrong::new(format!("{value} is no table")))
}

fn list(value: &Value) -> Result<&[Value], Wrong> {
    let tables = value.as_array().filter(|items| items.iter().all(Value::is_object));
    tables.map(Vec::as_slice).ok_or_else(|| Wrong::new("is no list of tables: write it with two brackets"))
}

fn known(key: &str, keys: &[&'static str]) -> Result<&'static str, Wrong> {
    keys.iter().find(|known| **known == key).copied().ok_or_else(|| {
        Wrong::new(match nearest(key, keys.iter().copied()) {
            Some(nearest) => format!("is an unknown key; did you mean {nearest}?"),
            None => format!("is an unknown key; known are {}", keys.join(", ")),
        })
        .at(key)
    })
}

fn time(value: &Value) -> Result<Timestamp, String> {
    let text = value.as_str().unwrap_or("");
    values::time(text).map_err(|problem| format!("{value}: {problem}"))
}

/// A duration as it is written in configurations; 0 needs no unit.
fn duration(value: &Value) -> Result<Duration, String> {
    match value.as_str() {
        _ if value.as_u64() == Some(0) => Ok(Duration::ZERO),
        Some(text) => read_duration(text).map_err(|problem| format!("{value} {problem}")),
        None => Err(format!("{value} {NO_DURATION}")),
    }
}
