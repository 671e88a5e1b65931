//! Texts from elsewhere as metric labels.

use std::collections::HashSet;
use std::sync::Mutex;

/// The most characters of a policy name in a label.
pub const MAX_NAME: usize = 64;
/// How many different policy names become labels; the names after them are told as [`OTHER`].
pub const MAX_NAMES: usize = 100;
/// The label of the names beyond [`MAX_NAMES`].
pub const OTHER: &str = "other";

/// The policy names seen so far. They come from a guest, which must not be able to make metrics without end.
#[derive(Debug, Default)]
pub struct PolicyNames(Mutex<HashSet<String>>);

impl PolicyNames {
    /// The label of a policy name: at most [`MAX_NAME`] characters of `[A-Za-z0-9_.-]`, others replaced by `_`.
    #[must_use]
    pub fn label(&self, name: &str) -> String {
        let label = clean(name);
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if seen.contains(&label) {
            return label;
        }
        if seen.len() >= MAX_NAMES {
            return OTHER.to_owned();
        }
        seen.insert(label.clone());
        label
    }
}

fn clean(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let label: String = name.chars().take(MAX_NAME).map(|c| if allowed(c) { c } else { '_' }).collect();
    if label.is_empty() { "_".to_owned() } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_only_the_allowed_characters() {
        assert_eq!(PolicyNames::default().label("Inventory Specific\"}\n\u{e4}.v1-2"), "Inventory_Specific____.v1-2");
    }

    #[test]
    fn a_name_is_cut_at_64_characters() {
        assert_eq!(PolicyNames::default().label(&"x".repeat(200)).len(), MAX_NAME);
    }

    #[test]
    fn the_hundred_and_first_name_is_other_and_earlier_ones_stay() {
        let names = PolicyNames::default();
        for n in 0..MAX_NAMES {
            assert_eq!(names.label(&format!("policy-{n}")), format!("policy-{n}"));
        }
        assert_eq!(names.label("one-more"), OTHER);
        assert_eq!(names.label("policy-7"), "policy-7");
    }
}
