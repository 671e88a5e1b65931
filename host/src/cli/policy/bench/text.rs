//! What a policy costs, for people.

use super::{Benched, Costs};
use crate::cli::table::Table;
use crate::model::text::visible;

/// For people.
pub fn text(benched: &Benched) -> String {
    let Benched { entries, policy, default_matrix } = benched;
    let mut table = Table::new(&["", &visible(&policy.name), "DEFAULT MATRIX"]);
    let mut row = |what: &str, value: fn(&Costs) -> String| {
        table.row([what.to_owned(), value(policy), value(default_matrix)]);
    };
    row("size", |costs| format!("{} KiB", costs.size_bytes.div_ceil(1024)));
    row("load, nothing compiled", |costs| shown(costs.cold_load_ns));
    row("load, compiled code cached", |costs| costs.cached_load_ns.map_or_else(|| "no cache".to_owned(), shown));
    row("instantiate, p50", |costs| shown(costs.instantiate_p50_ns));
    row("instantiate, p99", |costs| shown(costs.instantiate_p99_ns));
    row("decision in a fresh instance, p50", |costs| shown(costs.cold_call_p50_ns));
    row("decision in a fresh instance, p99", |costs| shown(costs.cold_call_p99_ns));
    row("decision in a running instance, p50", |costs| shown(costs.call_p50_ns));
    row("decision in a running instance, p99", |costs| shown(costs.call_p99_ns));
    row("memory of an instance", |costs| format!("{} KiB", costs.memory_bytes.div_ceil(1024)));
    let mut lines = table.lines();
    lines.push(format!(
        "\nA decision is the three questions about one dead letter; {entries} were asked about in turn."
    ));
    lines.join("\n")
}

/// A time in three digits or four.
fn shown(nanoseconds: u64) -> String {
    let (unit, whole) = match nanoseconds {
        0..1_000 => return format!("{nanoseconds} ns"),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let tenths = nanoseconds.saturating_mul(10).saturating_add(whole / 2) / whole;
    if tenths < 1000 { format!("{}.{} {unit}", tenths / 10, tenths % 10) } else { format!("{} {unit}", tenths / 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_a_unit_that_fits() {
        let told = [999, 4_830, 18_100, 312_000_000, 2_000_000_000].map(shown);
        assert_eq!(told, ["999 ns", "4.8 µs", "18.1 µs", "312 ms", "2.0 s"]);
    }
}
