//! Values that are stored as a number and written by name.

use std::fmt;

/// A text that names none of the values of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {value:?}; expected one of {}", expected.join(", "))]
pub struct UnknownName {
    /// What was expected, such as `recovery status`.
    pub what: &'static str,
    /// The text that was given.
    pub value: String,
    /// The names that are known.
    pub expected: Vec<&'static str>,
}

/// A number that stands for none of the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{number} is no {what}")]
pub struct UnknownNumber {
    /// What was expected, such as `recovery status`.
    pub what: &'static str,
    /// The number that was given.
    pub number: i64,
}

/// Whether `given` is `name` when upper and lower case, `-` and `_` are not told apart.
pub(crate) fn same_name(given: &str, name: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    given == name || plain(given) == plain(name)
}

/// How many characters of a given name are compared: it is as long as others please.
const MAX_COMPARED: usize = 200;

/// The known name that `given` was most likely meant to be, if any is near enough.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = compared(given);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &compared(name)), name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The known name that comes nearest to `given`, however far it is: one that begins with it, else one that holds it,
/// else the one with the fewest letters to change. `None` when no name is known.
pub(crate) fn nearest_of_all<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = compared(given);
    known.into_iter().min_by_key(|name| {
        let name = compared(name);
        (!name.starts_with(&given), !name.contains(&given), strsim::damerau_levenshtein(&given, &name))
    })
}

fn compared(name: &str) -> String {
    name.chars().take(MAX_COMPARED).flat_map(char::to_lowercase).collect()
}

/// Writes a value as its name.
pub(crate) fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    f.pad(name)
}

/// Declares an enum whose numbers and names are a contract.
macro_rules! named_numbers {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident ($what:literal) {
            $( $(#[$variant_meta:meta])* $variant:ident = $number:literal as $text:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name { $( $(#[$variant_meta])* $variant = $number ),+ }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &'static [Self] = &[ $( Self::$variant ),+ ];

            /// The number in the database.
            #[must_use]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// The name in JSON, on the command line and in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $text ),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::model::names::write_name(f, self.name())
            }
        }

        impl TryFrom<i64> for $name {
            type Error = $crate::model::names::UnknownNumber;

            fn try_from(number: i64) -> Result<Self, Self::Error> {
                match number {
                    $( $number => Ok(Self::$variant), )+
                    _ => Err($crate::model::names::UnknownNumber { what: $what, number }),
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| $crate::model::names::same_name(text, value.name()))
                    .ok_or_else(|| $crate::model::names::UnknownName {
                        what: $what,
                        value: text.to_owned(),
                        expected: Self::ALL.iter().map(|value| value.name()).collect(),
                    })
            }
        }
    };
}
pub(crate) use named_numbers;

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["lanes", "lease", "max_policy_errors", "probe_interval", "scan_interval"];

    #[test]
    fn a_name_that_is_too_far_from_all_is_near_to_none_unless_any_will_do() {
        assert_eq!(nearest("scan_intervall", NAMES), Some("scan_interval"));
        assert_eq!(nearest("probe", NAMES), None);
        assert_eq!(nearest_of_all("zzzzzzzzzzzzzzzzzzzzzz", NAMES).map(str::is_empty), Some(false));
        assert_eq!((nearest("lanes", []), nearest_of_all("lanes", [])), (None, None));
    }

    #[test]
    fn a_name_that_begins_with_what_was_given_or_holds_it_is_nearer_than_one_of_few_changes() {
        assert_eq!(nearest_of_all("probe", NAMES), Some("probe_interval"));
        assert_eq!(nearest_of_all("INTERVAL", NAMES), Some("scan_interval"));
        assert_eq!(nearest_of_all("policy", NAMES), Some("max_policy_errors"));
        assert_eq!(nearest_of_all("leaze", NAMES), Some("lease"));
    }

    #[test]
    fn a_name_without_end_is_compared_by_its_beginning() {
        let long = "k".repeat(10 << 20);
        assert_eq!(nearest(&long, NAMES), None);
        assert!(nearest_of_all(&long, NAMES).is_some());
    }
}
