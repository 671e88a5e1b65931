//! Faults that users of comparable systems reported, those that belong to no capability alone. The table in
//! `docs/faults.md` says which test stands for which fault.

mod arriving;
mod clocks;
mod herd;
mod pooling;
mod reading;
mod table;
mod together;
