//! Values of source rows as JSON, so that each comes back as the bytes it was.
//!
//! Numbers, texts and NULL are JSON's own. What JSON cannot hold is an object with one key: `$blob` (hex), `$text`
//! (hex of text that is not UTF-8), `$real` (a number that is none).

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::values::Cell;

const BLOB: &str = "$blob";
const BROKEN_TEXT: &str = "$text";
const REAL: &str = "$real";

/// A value as JSON.
pub(super) fn encode(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => json!(number),
        Cell::Real(number) if number.is_finite() => json!(number),
        Cell::Real(number) => json!({ REAL: number.to_string() }),
        Cell::Text(text) => json!(text),
        Cell::BrokenText(bytes) => json!({ BROKEN_TEXT: hex(bytes) }),
        Cell::Blob(bytes) => json!({ BLOB: hex(bytes) }),
    }
}

/// The value that JSON stands for; objects and arrays that are none of ours are kept as their text.
pub(super) fn decode(raw: &RawValue) -> Cell {
    let text = || Cell::Text(raw.get().to_owned());
    match raw.get().as_bytes().first() {
        Some(b'{') => special(raw).unwrap_or_else(text),
        Some(b'[') => text(),
        _ => match serde_json::from_str(raw.get()) {
            Ok(Value::Null) => Cell::Null,
            Ok(Value::Bool(value)) => Cell::Integer(value.into()),
            Ok(Value::String(value)) => Cell::Text(value),
            Ok(Value::Number(number)) => number
                .as_i64()
                .map(Cell::Integer)
                .or_else(|| if number.is_u64() { None } else { number.as_f64().map(Cell::Real) })
                .unwrap_or_else(text),
            Ok(Value::Array(_) | Value::Object(_)) | Err(_) => text(),
        },
    }
}

fn special(raw: &RawValue) -> Option<Cell> {
    // A body of an application may be large: only a short look tells that it is none of ours.
    if !raw.get().trim_start_matches(['{', ' ', '\n', '\t', '\r']).starts_with("\"$") {
        return None;
    }
    let Ok(Value::Object(object)) = serde_json::from_str(raw.get()) else {
        return None;
    };
    let mut members = object.iter();
    let (Some((key, Value::String(value))), None) = (members.next(), members.next()) else {
        return None;
    };
    match key.as_str() {
        BLOB => unhex(value).map(Cell::Blob),
        BROKEN_TEXT => unhex(value).map(Cell::BrokenText),
        REAL => value.parse().ok().map(Cell::Real),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_as_it_was() {
        for cell in [
            Cell::Null,
            Cell::Integer(i64::MIN),
            Cell::Integer(i64::MAX),
            Cell::Real(0.1 + 0.2),
            Cell::Real(1e300),
            Cell::Real(f64::NEG_INFINITY),
            Cell::Text("{\"$blob\":\"00\"}".to_owned()),
            Cell::Text("nul \0 and \u{1F600}".to_owned()),
            Cell::BrokenText(vec![0x61, 0xff, 0x00]),
            Cell::Blob(vec![0, 255, 16]),
            Cell::Blob(Vec::new()),
        ] {
            let raw = RawValue::from_string(encode(&cell).to_string()).unwrap();
            assert_eq!(decode(&raw), cell);
        }
    }

    #[test]
    fn json_of_other_makers_is_kept_as_text() {
        for text in ["{\"a\": 1.50}", "[1, 2]", "{\"$blob\": 5}", "{\"$blob\": \"0\"}", "18446744073709551615"] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(decode(&raw), Cell::Text(text.to_owned()));
        }
        assert_eq!(decode(&RawValue::from_string("true".to_owned()).unwrap()), Cell::Integer(1));
    }
}
