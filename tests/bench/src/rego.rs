//! The default matrix in Rego.
//!
//! What evaluates it takes minutes to compile. Without the feature `rego` it is not there, and no time is a number.

use reprieve::model::view::PolicyView;

/// The matrix, compiled once.
#[cfg(feature = "rego")]
pub struct Matrix(regorus::CompiledPolicy);

#[cfg(feature = "rego")]
impl Matrix {
    pub fn compile() -> Self {
        let mut engine = regorus::Engine::new();
        engine.add_policy("matrix.rego".to_owned(), include_str!("matrix.rego").to_owned()).unwrap();
        Self(engine.compile_with_entrypoint(&"data.matrix.answers".into()).unwrap())
    }

    /// The time of one entry, in µs. Only the evaluation is measured: the inputs are built before.
    pub fn time(&self, views: &[PolicyView]) -> f64 {
        let inputs: Vec<regorus::Value> = views
            .iter()
            .map(|view| {
                let mut text = String::new();
                reprieve::model::json::write_entry(view, &mut text);
                regorus::Value::from_json_str(&text).unwrap()
            })
            .collect();
        let started = std::time::Instant::now();
        for input in inputs {
            std::hint::black_box(self.0.eval_with_input(input).unwrap());
        }
        super::policies::each(started, views.len())
    }
}

/// Nothing.
#[cfg(not(feature = "rego"))]
pub struct Matrix;

#[cfg(not(feature = "rego"))]
impl Matrix {
    pub fn compile() -> Self {
        Self
    }

    pub fn time(&self, _: &[PolicyView]) -> f64 {
        f64::NAN
    }
}
